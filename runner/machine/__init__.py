"""The machine that the numbers are measured on."""
