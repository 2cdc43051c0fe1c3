"""A party's own pages, for its operator and its data-protection officer: what is asked, what was spent, what left.

A process of its own on loopback (`parley page NODE`), which reads the node's folder whether or not the node is running;
the party's process loads none of this. What people decide here goes through the functions that the commands use.

    reading     what is in the folder, read-only, each store by itself: a damaged one hides no other
    costs       what a run costs, from the accountant's process
    own         figures of the institution's records: computed on request, in a process that ends with them
    views       what a page shows, as plain values; what stays in the institution is marked
    figures     from what was read to views
    decisions   approve, refuse, withdraw: only of what was shown
    app         the pages
    process     the folder, the address, the link
"""
