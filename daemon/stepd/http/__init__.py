"""The HTTP edge: decodes a request, calls one function of the service, sends its answer."""
