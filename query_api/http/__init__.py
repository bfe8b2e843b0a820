"""HTTP: the application, the table of routes, middleware, and the pages about the API itself."""
