"""The signed report of a run: what a data-protection officer reads on two pages, at every role.

`parley report NODE -o report.html`; `parley report verify FILE`. `facts` is what each role's room tells of its own
books, `content` the document that is signed, `signed` the envelope, `page`, `pdf` and JSON its three forms: each is
drawn from the signed content and from nothing else, so that whoever verifies one draws it again and compares.
"""
