import { defineConfig } from "vite";

// The server of `enpire demo --port 8421` answers the API while `npm run dev` serves the page.
const lab = "http://127.0.0.1:8421";

export default defineConfig({
  build: {
    outDir: "../static",
    emptyOutDir: true,
    assetsInlineLimit: 0, // the content security policy allows no data: addresses
    modulePreload: { polyfill: false },
    target: "es2022",
  },
  server: { proxy: { "/api": { target: lab, ws: true } } },
});
