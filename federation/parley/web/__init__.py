"""What pages of any role are served with: a listener, sessions, a guard at the door. The views are each role's own.

Beside `node`, because every role may have pages, and apart from it, because no role's own process may load a web
framework: pages are a process of their own (parley.node.page_process starts it).
"""
