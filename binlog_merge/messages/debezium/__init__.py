"""Debezium's change events for MySQL, as its connector 3.6 makes them with Kafka Connect's JsonConverter."""
