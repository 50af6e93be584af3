"""What `make packages` has made, installed into systems that have nothing of weft."""
