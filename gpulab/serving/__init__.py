"""Who is served next: requests, policies, the engine. Nothing lives here yet (labs 04 and 07)."""
