"""Profile one call: collect -> parse -> floors -> rule -> view."""
