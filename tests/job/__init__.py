"""What the driver does between the stages."""
