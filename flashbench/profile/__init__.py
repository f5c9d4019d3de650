"""Where the time of one call goes: collect -> parse -> floors -> rule -> view."""
