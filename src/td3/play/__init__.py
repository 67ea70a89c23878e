"""The playground: policies in MuJoCo's physics in a browser.

`page/` is a static web page. It needs `policies.json`, the numbers of each policy and Gymnasium's
models; `site.py` makes these, for `td3 play` and for the documentation site.
"""
