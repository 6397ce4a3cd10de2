"""What binlog events mean: order, schemas, reshaping. Pure: no files, no Spark."""
