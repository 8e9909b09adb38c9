import tseslint from "typescript-eslint";

export default tseslint.config({ ignores: ["node_modules"] }, ...tseslint.configs.strict, {
  files: ["src/**/*.ts", "test/**/*.ts"],
  rules: {
    eqeqeq: "error",
    "no-var": "error",
    "prefer-const": "error",
    "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
    // Markup is text nodes and attributes alone: names and ids of users may hold anything.
    "no-restricted-properties": [
      "error",
      { property: "innerHTML", message: "Use textContent: names may hold markup." },
      { property: "outerHTML", message: "Use textContent: names may hold markup." },
      { property: "insertAdjacentHTML", message: "Use textContent: names may hold markup." },
    ],
    "no-restricted-globals": ["error", "fetch", "XMLHttpRequest", "WebSocket", "EventSource"],
    "no-eval": "error",
    "no-implied-eval": "error",
    "max-lines": ["error", 400],
    "max-params": ["error", 7],
  },
});
