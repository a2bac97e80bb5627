"""Opens a page in a browser, and notes everything that the page did and should not."""


class Visit:
    """A page that is open, and everything that it did and should not."""

    def __init__(self, browser, path, viewport, scheme="light", fragment=""):
        self.context = browser.new_context(viewport=viewport, color_scheme=scheme)
        self.page = self.context.new_page()
        self.faults = []
        self.page.on("console", lambda said: self.faults.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", lambda dialog: self.faults.append(f"dialog {dialog.message}"))
        self.page.on("request", self._note)
        self.page.add_init_script(
            "addEventListener('securitypolicyviolation', e => console.error('policy', e.violatedDirective, e.sample))"
        )
        self.page.goto(path.as_uri() + fragment)
        self.page.wait_for_selector("html[data-ready]", state="attached")

    def _note(self, request):
        if not request.is_navigation_request() or not request.url.startswith("file:"):
            self.faults.append(f"request {request.url}")

    def draw_all(self):
        """Scrolls to every chart, as a reader does, and waits until it is drawn."""
        for figure in self.page.query_selector_all("main figure.chart"):
            if figure.is_visible():
                figure.scroll_into_view_if_needed()
                figure.wait_for_selector(".plot[data-drawn] svg")
        self.page.evaluate("scrollTo(0, 0)")

    def wait(self, expression):
        """Waits until an expression is true. Playwright's own way evaluates text, which the page forbids."""
        for _ in range(100):
            if self.page.evaluate(expression):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"not true after 5 seconds: {expression}")

    def rows(self):
        return self.page.locator("#cell-table tbody tr")

    def column(self, name):
        """The texts of a column, by the name of its header."""
        names = self.page.eval_on_selector_all("#cell-table thead th", "all => all.map(each => each.dataset.name)")
        place = names.index(name) + 1
        return self.page.eval_on_selector_all(
            f"#cell-table tbody tr > :nth-child({place})", "all => all.map(each => each.textContent)"
        )

    def close(self):
        self.context.close()
        assert self.faults == []
