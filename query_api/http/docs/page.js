"use strict";
// Renders openapi.json, which stands beside this page. Everything from the document enters as text, never as markup.

const BASE = location.pathname.replace(/\/docs\/?$/, "");
const METHODS = ["get", "post", "put", "patch", "delete"];
const DEPTH_MAX = 6;
let api;

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null));
  return element;
}

// `code` in prose, and nothing else.
function prose(text) {
  return text.split("`").map((part, index) => (index % 2 ? make("code", {}, part) : part));
}

function resolve(node) {
  let found = node || {};
  while (found.$ref) found = found.$ref.slice(2).split("/").reduce((value, part) => value[part], api);
  return found;
}

function nameOf(schema) {
  return schema && schema.$ref ? schema.$ref.split("/").pop() : "";
}

function withoutNull(schema) {
  const options = schema.anyOf || schema.oneOf;
  if (!options) return [schema];
  return options.filter((option) => option.type !== "null");
}

function typeOf(schema) {
  if (!schema || Object.keys(schema).length === 0) return "any";
  if (schema.$ref) {
    const target = resolve(schema);
    return target.enum ? target.enum.map((value) => JSON.stringify(value)).join(" | ") : nameOf(schema);
  }
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.anyOf || schema.oneOf) return withoutNull(schema).map(typeOf).join(" | ");
  if (schema.type === "array") return `array of ${typeOf(schema.items)}`;
  if (schema.type === "object" && typeof schema.additionalProperties === "object") {
    return `object of ${typeOf(schema.additionalProperties)}`;
  }
  const name = Array.isArray(schema.type) ? schema.type.join(" | ") : schema.type || "any";
  return schema.format ? `${name} (${schema.format})` : name;
}

// The objects that stand somewhere inside a member: where its own members are listed.
function objectsIn(schema) {
  if (!schema) return [];
  if (schema.$ref) return resolve(schema).properties ? [schema] : [];
  if (schema.anyOf || schema.oneOf) return withoutNull(schema).flatMap(objectsIn);
  if (schema.type === "array") return objectsIn(schema.items);
  if (typeof schema.additionalProperties === "object") return objectsIn(schema.additionalProperties);
  return schema.properties ? [schema] : [];
}

function limitsOf(schema) {
  const words = [];
  for (const option of [schema, ...withoutNull(schema)]) {
    if (option.minimum !== undefined) words.push(`≥ ${option.minimum}`);
    if (option.maximum !== undefined) words.push(`≤ ${option.maximum}`);
    if (option.maxLength !== undefined) words.push(`≤ ${option.maxLength} characters`);
    if (option.maxItems !== undefined) words.push(`≤ ${option.maxItems} members`);
  }
  if (schema.default !== undefined && schema.default !== null) words.push(`default ${JSON.stringify(schema.default)}`);
  return [...new Set(words)].join(", ");
}

function memberList(schema, above = []) {
  const target = resolve(schema);
  const list = make("ul", { class: "members" });
  for (const [name, member] of Object.entries(target.properties || {})) {
    list.append(memberItem(name, member, (target.required || []).includes(name), above));
  }
  return list;
}

function memberItem(name, member, required, above) {
  const head = [make("code", {}, name), make("span", { class: "type" }, typeOf(member))];
  if (required) head.push(make("span", { class: "required", title: "required" }, " *"));
  const limits = limitsOf(member);
  if (limits) head.push(make("span", { class: "type" }, limits));
  const description = member.description ? make("p", {}, ...prose(member.description)) : undefined;
  const inner = [...new Map(objectsIn(member).map((object) => [nameOf(object), object])).values()]
    .filter((object) => !above.includes(nameOf(object)));
  if (!inner.length || above.length >= DEPTH_MAX) return make("li", {}, ...head, description);
  const nested = make("details", {}, make("summary", {}, ...head), description);
  nested.addEventListener("toggle", () => {
    if (nested.dataset.filled) return;
    nested.dataset.filled = "yes";
    for (const object of inner) nested.append(memberList(object, [...above, nameOf(object)]));
  });
  return make("li", {}, nested);
}

function exampleOf(schema, above = []) {
  if (!schema) return null;
  if (schema.examples) return schema.examples[0];
  if (schema.default !== undefined && schema.default !== null) return schema.default;
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  if (schema.$ref) {
    const name = nameOf(schema);
    return above.includes(name) || above.length >= DEPTH_MAX ? undefined : exampleOf(resolve(schema), [...above, name]);
  }
  if (schema.anyOf || schema.oneOf) return exampleOf(withoutNull(schema)[0], above);
  switch (schema.type) {
    case "array": {
      const item = exampleOf(schema.items, above);
      return item === undefined ? [] : [item];
    }
    case "object": return exampleObject(schema, above);
    case "string": return schema.format === "date-time" ? new Date().toISOString() : schema.format === "uuid" ? crypto.randomUUID() : "text";
    case "integer": return schema.minimum ?? 1;
    case "number": return schema.minimum ?? 1;
    case "boolean": return true;
    default: return schema.properties ? exampleObject(schema, above) : {};
  }
}

// Required members; where there are none, the whole is optional and an empty object is the plainest valid body.
function exampleObject(schema, above) {
  const example = {};
  for (const name of schema.required || []) {
    const value = exampleOf(schema.properties[name], above);
    if (value !== undefined) example[name] = value;
  }
  return example;
}

function statusTable(operation) {
  const table = make("table", { class: "statuses" });
  for (const [status, reference] of Object.entries(operation.responses)) {
    const response = resolve(reference);
    const media = Object.entries(response.content || {})[0] || ["", {}];
    const shape = media[1].schema ? typeOf(media[1].schema) : media[0];
    table.append(make("tr", {}, make("td", { class: status < "400" ? "good" : "bad" }, status), make("td", {}, response.description), make("td", {}, make("code", {}, shape))));
  }
  return table;
}

function description(operation) {
  const column = make("div", {});
  if (operation.description) column.append(make("p", { class: "lead" }, ...prose(operation.description)));
  const parameters = operation.parameters || [];
  if (parameters.length) {
    const list = make("ul", { class: "members" });
    for (const parameter of parameters) {
      list.append(memberItem(parameter.name, { ...parameter.schema, description: parameter.description }, parameter.required, []));
    }
    column.append(make("h3", {}, "Parameters"), list);
  }
  const body = operation.requestBody;
  if (body) {
    column.append(make("h3", {}, body.required ? "Body" : "Body, optional"));
    for (const [kind, media] of Object.entries(body.content)) {
      column.append(make("p", { class: "summary" }, make("code", {}, kind)));
      if (media.schema) column.append(memberList(media.schema, [nameOf(media.schema)]));
    }
  }
  column.append(make("h3", {}, "Answers"), statusTable(operation));
  const answer = Object.entries(operation.responses).find(([status]) => status < "400");
  const media = answer && resolve(answer[1]).content?.["application/json"];
  if (media?.schema) column.append(make("h3", {}, `Body of ${answer[0]}`), memberList(media.schema, [nameOf(media.schema)]));
  if (media?.example !== undefined) {
    const shown = make("pre", { tabindex: "0" }, JSON.stringify(media.example, null, 2));
    column.append(make("details", {}, make("summary", {}, "An answer, for example"), shown));
  }
  return column;
}

function bodyKind(operation) {
  const kinds = Object.keys(operation.requestBody?.content || {});
  return kinds.includes("application/json") ? "application/json" : kinds[0];
}

function trial(method, path, operation) {
  const form = make("form", { class: "try" });
  const inputs = [];
  for (const parameter of operation.parameters || []) {
    const input = make("input", { name: parameter.name, placeholder: [parameter.example ?? typeOf(parameter.schema)].flat().join(", "), autocomplete: "off" });
    inputs.push([parameter, input]);
    form.append(make("label", {}, `${parameter.name} (${parameter.in})`, input));
  }
  const kind = bodyKind(operation);
  let body;
  if (kind) {
    const media = operation.requestBody.content[kind];
    const example = media.example ?? exampleOf(media.schema || { type: "object" });
    body = make("textarea", { spellcheck: "false" });
    body.value = JSON.stringify(example ?? {}, null, 2);
    form.append(make("label", {}, "Body", body));
  }
  const send = make("button", { type: "submit" }, "Send");
  const copy = make("button", { type: "button", class: "quiet" }, "As curl");
  const outcome = make("div", { role: "status", "aria-live": "polite" });
  form.append(make("div", { class: "bar" }, send, copy), outcome);
  const request = () => requestOf(method, path, inputs, body, kind);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run(request(), send, outcome);
  });
  copy.addEventListener("click", () => {
    const text = curlOf(request());
    outcome.replaceChildren(make("p", { class: "note" }, "The same from a shell:"), make("pre", { tabindex: "0" }, text));
    navigator.clipboard?.writeText(text).catch(() => {});  // Shown in any case: the clipboard may be out of reach.
  });
  return make("div", {}, make("h3", {}, "Try it"), form);
}

function requestOf(method, path, inputs, body, kind) {
  let filled = path;
  const query = new URLSearchParams();
  for (const [parameter, input] of inputs) {
    if (parameter.in === "path") filled = filled.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
    else if (input.value) query.append(parameter.name, input.value);
  }
  const headers = {};
  const key = document.getElementById("key").value.trim();
  if (key) headers.Authorization = `ApiKey ${key}`;
  if (body) headers["Content-Type"] = kind;
  const text = query.toString();
  return { method: method.toUpperCase(), url: location.origin + BASE + filled + (text ? `?${text}` : ""), headers, body: body?.value };
}

function curlOf(request) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const headers = Object.entries(request.headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`);
  const body = request.body === undefined ? [] : ["-d", quoted(request.body)];
  return ["curl", "-X", request.method, quoted(request.url), ...headers, ...body].join(" ");
}

async function run(request, button, outcome) {
  button.disabled = true;
  outcome.replaceChildren(make("p", { class: "note" }, "Waiting for the answer…"));
  const started = performance.now();
  try {
    const response = await fetch(request.url, request);
    const text = await response.text();
    const ms = Math.round(performance.now() - started);
    const line = `${response.status} ${response.statusText} · ${ms} ms · ${text.length.toLocaleString()} characters`;
    outcome.replaceChildren(make("p", { class: response.ok ? "good" : "bad" }, line), make("pre", { tabindex: "0" }, pretty(text) || "(no body)"));
  } catch (error) {
    outcome.replaceChildren(make("p", { class: "bad" }, `No answer: ${error.message}`));
  } finally {
    button.disabled = false;
  }
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function routeCard(method, path, operation) {
  const summary = make("summary", {},
    make("span", { class: `method ${method}` }, method.toUpperCase()),
    make("span", { class: "path" }, path),
    make("span", { class: "summary" }, operation.summary || ""),
    operation.deprecated ? make("span", { class: "badge" }, "deprecated") : undefined,
    operation.security.length ? undefined : make("span", { class: "badge" }, "no key needed"));
  const card = make("details", { class: `route${operation.deprecated ? " deprecated" : ""}`, id: operation.operationId }, summary);
  card.dataset.words = `${method} ${path} ${operation.summary} ${operation.description}`.toLowerCase();
  card.addEventListener("toggle", () => {
    if (!card.open || card.dataset.filled) return;
    card.dataset.filled = "yes";
    card.append(make("div", { class: "inside" }, description(operation), trial(method, path, operation)));
  });
  return card;
}

function menuLink(method, path, operation) {
  const link = make("a", { href: `#${operation.operationId}` }, make("span", { class: `method ${method}` }, method.toUpperCase()), make("span", {}, path));
  link.dataset.route = operation.operationId;
  return link;
}

function show() {
  document.getElementById("version").textContent = api.info.version;
  const menu = document.getElementById("menu");
  const main = document.getElementById("content");
  main.replaceChildren(...api.info.description.split("\n\n").map((text) => make("p", { class: "lead" }, ...prose(text))));
  for (const { name } of api.tags) {
    const section = make("section", {}, make("h2", {}, name));
    const links = make("div", {}, make("h2", {}, name));
    for (const [path, operations] of Object.entries(api.paths)) {
      for (const method of METHODS.filter((each) => operations[each]?.tags.includes(name))) {
        section.append(routeCard(method, path, operations[method]));
        links.append(menuLink(method, path, operations[method]));
      }
    }
    main.append(section);
    menu.append(links);
  }
  main.append(schemaSection());
  openNamed();
}

function schemaSection() {
  const section = make("section", { id: "schemas" }, make("h2", {}, "Schemas"));
  for (const [name, schema] of Object.entries(api.components.schemas)) {
    const card = make("details", { class: "schema" }, make("summary", {}, name));
    card.addEventListener("toggle", () => {
      if (card.dataset.filled) return;
      card.dataset.filled = "yes";
      if (schema.description) card.append(make("p", { class: "summary" }, ...prose(schema.description)));
      card.append(schema.properties ? memberList(schema, [name]) : make("p", { class: "summary" }, make("code", {}, typeOf(schema))));
    });
    section.append(card);
  }
  return section;
}

function openNamed() {
  const card = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (card?.classList.contains("route")) {
    card.open = true;
    card.scrollIntoView();
  }
}

function filter(words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  for (const card of document.querySelectorAll("details.route")) {
    card.hidden = !wanted.every((word) => card.dataset.words.includes(word));
    const link = document.querySelector(`[data-route="${card.id}"]`);
    if (link) link.hidden = card.hidden;
  }
}

document.getElementById("search").addEventListener("input", (event) => filter(event.target.value));
addEventListener("hashchange", openNamed);
fetch(`${BASE}/openapi.json`)
  .then((response) => response.json())
  .then((document_) => {
    api = document_;
    show();
  })
  .catch((error) => {
    document.getElementById("content").replaceChildren(make("p", { class: "bad", role: "alert" }, `The document cannot be read: ${error.message}`));
  });
