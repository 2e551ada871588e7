"""Schema versions of stepd's stores and the way to bring a database up to the newest."""
