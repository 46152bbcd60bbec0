"""What the numbers are measured on."""
