import "./scrollers";
import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./style/tokens.css";
import "./style/base.css";
import "./style/layout.css";
import "./style/parts.css";
import { App } from "./App";
import { ask } from "./session";
import { applyTheme } from "./theme";

applyTheme();
render(<App />, document.getElementById("app")!);
void ask().catch(() => setTimeout(() => location.reload(), 3000));
