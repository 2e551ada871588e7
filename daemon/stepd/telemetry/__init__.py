"""What the daemon tells about itself and its work: figures and logs."""
