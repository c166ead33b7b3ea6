"""Three small uses of pyblitz from Cython; ``python -m blitzdemo`` runs them."""
