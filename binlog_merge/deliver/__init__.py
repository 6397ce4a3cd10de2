"""Messages delivered exactly once: into Kafka, and into files of a folder or an object store."""
