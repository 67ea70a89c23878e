"""A page of the playground in a browser, with short names for what tests do."""

from typing import Any

from support.browser import collect_problems
from td3.serving import LocalServer


class Playground:
    def __init__(self, page: Any, server: LocalServer) -> None:
        self.page, self.server = page, server
        self.problems = collect_problems(page)
        self.requests: list[str] = []
        page.set_default_timeout(20_000)
        page.on("request", lambda request: self.requests.append(request.url))

    def open(self, fragment: str = "") -> "Playground":
        self.page.goto(f"{self.server.address}{fragment}")
        self.page.wait_for_function("document.documentElement.dataset.frames > 1")
        return self

    def choose(self, name: str, stage: int = 0) -> None:
        select = self.page.locator(".stage select").nth(stage)
        select.select_option(label=f"{name}, pretrained")
        self.page.wait_for_function("!document.body.innerText.includes('Loading')")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def texts(self, selector: str) -> list[str]:
        """The texts of all elements, after the next picture."""
        self.page.evaluate("new Promise((go) => requestAnimationFrame(() => setTimeout(go)))")
        return self.page.locator(selector).all_inner_texts()  # type: ignore[no-any-return]

    def text(self, selector: str) -> str:
        (text,) = self.texts(selector)
        return text

    def return_after(self, steps: int) -> float:
        """The return after this many single steps from now."""
        self.press(*["."] * steps)
        return float(self.text(".now").replace(",", ""))
