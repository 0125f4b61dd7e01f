"""A cluster on one machine: network namespaces, sleep for computing, real bytes."""
