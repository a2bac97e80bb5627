"""Makes C functions callable from JAX on the CPU, whatever language they are compiled from."""
