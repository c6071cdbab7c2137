--- doc: what everything is for: found in the registry of ops, in the classes of optimizers, and in the
--- comments of the library's own source.
--
-- `doc.print "AdamW"` is `help "AdamW"` at the prompt and `optlua --doc AdamW` in a shell;
-- scripts/dev/docs.lua writes all entries as pages.
local colon = require "optlua.colon"
local core = require "optlua.core"
local files = require "optlua.files"
local options = require "optlua.options"
local topics = require "optlua.topics"

local doc = {}

---@class optlua.doc.Entry
---@field name string as it is called: "optlua.cat", "tensor:sum", "nn.Linear"
---@field page string the page it stands on
---@field signature string
---@field text string
---@field example? string

-- Ops -------------------------------------------------------------------------------------------------

local kinds = {
  tensor = "tensor", operand = "tensor or number", tensors = "list of tensors", number = "number",
  data = "integer", index = "index", sizes = "list of sizes", dims = "dimension or list of dimensions",
  flag = "boolean", dtype = "dtype", any = "any value",
}

local function preset_text(param)
  if param.kind == "flag" then return tostring(param.preset ~= 0) end
  if param.kind == "number" or param.kind == "data" then return ("%.14g"):format(param.preset) end
  if param.kind == "choice" then
    local words = {}
    for word in param.choices:gmatch "[^|]+" do words[#words + 1] = word end
    return ('"%s"'):format(words[param.preset + 1])
  end
  if param.kind == "index" and param.preset ~= 0 then return ("%d"):format(param.preset) end
end

local function param_line(param)
  local taken = { param.choices and '"' .. param.choices:gsub("|", '" or "') .. '"', kinds[param.kind] }
  local words = { table.concat(taken, " or ", taken[1] and 1 or 2, param.kind == "choice" and 1 or 2) }
  if param.optional then
    local preset = preset_text(param)
    words[#words + 1] = preset and "default " .. preset or "optional"
  end
  if param.doc then words[#words + 1] = param.doc end
  return ("  %s: %s"):format(param.name, table.concat(words, "; "))
end

local registry -- what core.registry gave

local function families()
  registry = registry or core.registry()
  return registry
end

local function op_entry(family, op)
  local names, lines, first = {}, { op.doc }, op.method and 2 or 1
  for p, param in ipairs(op.params) do
    if p >= first then
      names[#names + 1] = param.optional and "[" .. param.name .. "]" or param.name
      lines[#lines + 1] = param_line(param)
    end
  end
  local name = (op.method and "tensor:" or "optlua.") .. op.name
  return {
    name = name, page = "tensors", section = family.doc or family.name,
    signature = ("%s(%s)"):format(name, table.concat(names, ", ")),
    text = table.concat(lines, "\n"), example = op.example,
  }
end

local function add_ops(entries)
  for _, family in ipairs(families()) do
    for _, op in ipairs(family.ops) do
      if not op.hidden then entries[#entries + 1] = op_entry(family, op) end
    end
  end
end

-- Keys of tensors, which no function takes.
local indexing = {
  name = "tensor indexing", page = "tensors", section = "Fields and keys",
  signature = "t[i], t[{ … }], t[index], t[mask]; t[…] = value",
  text = [[
Reads or sets a part of a tensor. Positions count from 1, negative ones from the end; slices include both ends.
  t[2]: one position of dimension 1, which the result does not have; so t[2][3] is one element
  t[{ 2, { 1, 3 } }]: for each dimension a position, a slice { first, last } or { first, last, step }, or {}
   for the whole; dimensions that are left out are whole. t[{ 2, 3 }]:item() is a Lua number
  t[index]: int64 positions of dimension 1; they are data, and count from 0. Also once in a list
  t[mask]: uint8: the elements where it is not 0
Positions and slices give views, which share memory with t; index and mask give copies. A value that is
assigned is a number or a tensor, which broadcasts.]],
  example = [[
local t = optlua.arange(6):reshape(2, 3)
print(t[{ 2, { 1, 2 } }]) --> tensor([3, 4])
t[{ {}, 3 }] = -1
print(t[1]) --> tensor([ 0,  1, -1])]],
}

local function add_fields(entries)
  local fields = debug.getmetatable(core.zeros(0)).__names
  for _, name in ipairs(options.names(fields)) do
    entries[#entries + 1] = {
      name = "tensor." .. name, page = "tensors", section = indexing.section, signature = "tensor." .. name,
      text = fields[name],
    }
  end
  entries[#entries + 1] = indexing
end

-- Sources ----------------------------------------------------------------------------------------------

local sources = {} -- lines of files, by name

local function lines_of(path)
  sources[path] = sources[path] or files.lines(path)
  return sources[path]
end

--- The comment that ends above a line: its text, and what its tags say.
local function comment_above(lines, at)
  local first = at
  while first > 1 and lines[first - 1]:find "^%s*%-%-%-" do first = first - 1 end
  local text = {}
  for k = first, at - 1 do
    local line = lines[k]:gsub("^%s*%-%-%-%s?", "")
    local tag, rest = line:match "^@(%a+)%s*(.*)"
    if tag == "param" or tag == "return" then
      text[#text + 1] = ("  %s %s"):format(tag == "return" and "->" or "", rest):gsub("^   ", "  ")
    elseif not tag then
      text[#text + 1] = line
    end
  end
  return table.concat(text, "\n")
end

--- The lines of Lua in a comment (indented by four), which are its example.
local function example_in(text)
  local lines = {}
  for line in text:gmatch "[^\n]+" do
    local code = line:match "^    (.*)"
    if code then lines[#lines + 1] = code end
  end
  return #lines > 0 and table.concat(lines, "\n") or nil
end

local function where(fn)
  local info = debug.getinfo(colon.inside(fn), "S")
  if info.what == "C" then return nil end
  return lines_of(info.source:sub(2)), info.linedefined
end

local function parameters_of(fn, from)
  fn = colon.inside(fn)
  local info, names = debug.getinfo(fn, "u"), {}
  for k = from or 1, info.nparams do names[#names + 1] = debug.getlocal(fn, k) end
  if info.isvararg then names[#names + 1] = "…" end
  return table.concat(names, ", ")
end

--- `first` is the first parameter that a script writes: the second of methods, unless said otherwise.
local function function_entry(name, page, fn, first)
  local lines, at = where(fn)
  if not lines then return nil end
  local text = comment_above(lines, at)
  first = first or name:find ":" and 2 or 1
  return {
    name = name, page = page, signature = ("%s(%s)"):format(name, parameters_of(fn, first)),
    text = text, example = example_in(text),
  }
end

local function value_text(value)
  if type(value) ~= "table" then return type(value) == "string" and ('"%s"'):format(value) or tostring(value) end
  local words = {}
  for k, item in ipairs(value) do words[k] = value_text(item) end
  return "{ " .. table.concat(words, ", ") .. " }"
end

local function option_line(name, entry)
  local option = options.describe(entry)
  local words = { option.default ~= nil and "default " .. value_text(option.default) or option.required and "required" or "optional" }
  for _, bound in ipairs { { "min", "at least" }, { "max", "at most" }, { "above", "above" }, { "below", "below" } } do
    if option[bound[1]] then words[#words + 1] = ("%s %s"):format(bound[2], option[bound[1]]) end
  end
  if option.choices then words[#words + 1] = "one of " .. value_text(option.choices) end
  if option.doc then words[#words + 1] = option.doc end
  return ("  %s: %s"):format(name, table.concat(words, ", "))
end

--- One line for each argument of a signature.
local function option_lines(signature)
  local lines = {}
  for k, argument in ipairs(signature.list) do lines[k] = option_line(argument[1], argument[2]) end
  return table.concat(lines, "\n")
end

--- The names of a signature's arguments, those that may be left out in brackets.
local function argument_names(signature)
  local names = {}
  for k, argument in ipairs(signature.list) do
    names[k] = options.describe(argument[2]).required and argument[1] or "[" .. argument[1] .. "]"
  end
  return table.concat(names, ", ")
end

-- What an instance is called with and returns, where that is more than one tensor.
local function call_text(class)
  local forward = rawget(class, "forward")
  if not forward then return "" end
  local lines, at = where(forward)
  local text = lines and comment_above(lines, at) or ""
  local _, takes = ("\n" .. text):gsub("\n  %f[%w.]", "")
  return takes > 1 and "\nIt is called with:\n" .. text or ""
end

--- The comment of a class of layers stands above the line that makes it.
local function layer_entry(name, page, class)
  local maker = class.init or class.forward
  local lines, at = where(maker)
  if not lines then return nil end
  local text = ""
  for k, line in ipairs(lines) do
    if line:find("^local " .. class.name .. " =") or line:find("^classes%." .. class.name .. " =") then text = comment_above(lines, k) end
  end
  local form, init = class.signature, rawget(class, "init")
  local arguments = form and option_lines(form) or init and comment_above(lines, at) or ""
  local words = form and argument_names(form) or init and parameters_of(init, 2) or ""
  return {
    name = name, page = page, signature = ("%s(%s)"):format(name, words),
    text = (arguments == "" and text or text .. "\n" .. arguments) .. call_text(class), example = example_in(text),
  }
end

-- Optimizers -------------------------------------------------------------------------------------------

--- An optimizer is explained by the comment that begins its file, and by its hyperparameters.
local function optimizer_entry(name, class)
  local lines, text = where(class.step or class.update), {}
  for _, line in ipairs(lines or {}) do
    if not line:find "^%-%-%-" then break end
    text[#text + 1] = (line:gsub("^%-%-%-%s?", ""))
  end
  for _, hyper in ipairs(options.names(class.hyper)) do text[#text + 1] = option_line(hyper, class.hyper[hyper]) end
  return {
    name = "optim." .. name, page = "optim", section = "Optimizers",
    signature = ("optim.%s(parameters, options)"):format(name), text = table.concat(text, "\n"),
  }
end

-- Elementwise operations, and those over a tensor that one may look for in their place.
local over_tensor = { max = "amax", min = "amin" }

-- Each operation of rules has an entry; that of optim.define lists all.
local function add_operations(entries)
  local list = { "\n\nOperations:" }
  for _, operation in ipairs(core.hidden.optim.operation_list()) do
    local name, other = "optim." .. operation.name, over_tensor[operation.name]
    local signature = ("%s(%s)"):format(name, operation.arguments)
    local text = operation.doc .. (other and (", elementwise; that of one tensor: optim.%s"):format(other) or "")
    list[#list + 1] = ("  %s: %s"):format(signature, text)
    entries[#entries + 1] = {
      name = name, page = "optim", section = "Operations of update rules", signature = signature, text = text .. ". For update rules: see optim.define.",
    }
  end
  for _, entry in ipairs(entries) do
    if entry.name == "optim.define" then entry.text = entry.text .. table.concat(list, "\n") end
  end
end

local function add_optimizers(entries)
  local optim = require "optlua.optim"
  for _, name in ipairs(optim.list()) do entries[#entries + 1] = optimizer_entry(name, optim.resolve(name)) end
end

-- Modules ------------------------------------------------------------------------------------------------

local modules = { "nn", "optim", "distributions", "data", "metrics", "evaluate", "progress", "gradcheck", "save", "load", "npy",
  "spec", "config", "arg", "testing", "checkpoint" }

local function sorted(names)
  table.sort(names)
  return names
end

local function keys_of(value)
  local names = {}
  for name in pairs(value) do
    if type(name) == "string" and name ~= "new" and not name:find "^_" then names[#names + 1] = name end
  end
  return sorted(names)
end

local add_table

-- What a layer can do beside what every module can.
local function add_methods(entries, page, class)
  for _, name in ipairs(keys_of(class)) do
    local own = type(class[name]) == "function" and name ~= "init" and name ~= "forward" and name ~= "extra_repr"
    if own then entries[#entries + 1] = function_entry(class.name .. ":" .. name, page, class[name]) end
  end
end

-- The comment above a line of the file in which a function stands.
local function line_entry(name, page, fn, pattern)
  local lines = where(fn)
  for k, line in ipairs(lines or {}) do
    if line:find(pattern) then
      local text = comment_above(lines, k)
      return { name = name, page = page, signature = name, text = text, example = example_in(text) }
    end
  end
end

-- A function of nn.functional that is made of ops: its comment stands in measure.lua.
local function measure_entry(name, full)
  local measure = require("optlua.nn.measure")[name]
  local entry = measure and line_entry(full, "nn", measure.run, "^measure%." .. name .. " =")
  if not entry then return nil end
  local words = table.move(measure.inputs, 1, #measure.inputs, 1, {})
  for _, option in ipairs(measure.options) do words[#words + 1] = "[" .. option[1] .. "]" end
  entry.signature = ("%s(%s)"):format(full, table.concat(words, ", "))
  return entry
end

-- nn.functional holds ops.
local function functional_entry(name)
  for _, family in ipairs(families()) do
    for _, op in ipairs(family.ops) do
      if op.name == name then
        local entry, words = op_entry(family, op), {}
        for p, param in ipairs(op.params) do
          local word = param.name == "self" and "input" or param.name
          words[p] = param.optional and "[" .. word .. "]" or word
        end
        return {
          name = "nn.functional." .. name, page = "nn",
          signature = ("nn.functional.%s(%s)"):format(name, table.concat(words, ", ")),
          text = ("The operation %s, as a function. %s"):format(entry.name, op.doc),
        }
      end
    end
  end
  return measure_entry(name, "nn.functional." .. name)
end

--- Adds what a name stands for, if it is documented.
local function add_value(entries, prefix, name, page, value)
  local full = prefix .. name
  if type(value) == "function" then
    entries[#entries + 1] = function_entry(full, page, value)
  elseif type(value) == "table" and require("optlua.nn.module").is_class(value) then
    entries[#entries + 1] = layer_entry(full, page, value)
    if name == "Module" then add_table(entries, "module:", page, value) else add_methods(entries, page, value) end
  elseif type(value) == "table" and rawget(value, "log_prob") then
    entries[#entries + 1] = layer_entry(full, page, value)
    add_methods(entries, page, value)
  elseif name == "functional" then
    for _, own in ipairs(keys_of(value)) do entries[#entries + 1] = functional_entry(own) end
  elseif type(value) == "table" and (prefix == "nn.utils." or name == "utils" or name == "init" or name == "transforms") then
    add_table(entries, full .. ".", page, value)
  elseif full == "optim.groups" then
    add_table(entries, "optim.groups.", page, value)
  elseif type(value) == "table" and (name == "Optimizer" or name == "Container") then
    add_table(entries, name:lower() .. ":", page, value)
  elseif name == "container" then
    local entry = function_entry(full, page, value.new, 2)
    entry.signature = "optim.container(model, class, kwargs) or optim.container(model, groups, options)"
    entries[#entries + 1] = entry
  end
end

function add_table(entries, prefix, page, value)
  for _, name in ipairs(keys_of(value)) do add_value(entries, prefix, name, page, value[name]) end
end

-- What is no function of a module: methods of what functions return, and fields.
local function add_objects(entries)
  local optlua = require "optlua"
  local optimizer = optlua.optim.SGD {}
  for _, one in ipairs {
    { "loader:", "data", optlua.data.loader { n = 0, get = print } },
    { "vocabulary:", "data", optlua.data.vocabulary "" },
    { "progress:", "library", optlua.progress() },
    { "scheduler:", "optim", optlua.optim.lr_scheduler(optimizer, function() return 1 end) },
  } do add_table(entries, one[1], one[2], getmetatable(one[3]).__index) end
  entries[#entries + 1] = line_entry("optimizer.groups", "optim", optimizer.step, "^local function list_groups")
end

local function add_modules(entries)
  local optlua = require "optlua"
  for _, name in ipairs(modules) do
    local value = optlua[name]
    if type(value) == "function" then entries[#entries + 1] = function_entry("optlua." .. name, "library", value)
    elseif value then add_table(entries, name .. ".", name == "testing" and "library" or name, value) end
  end
  add_table(entries, "Class:", "optim", require("optlua.optim.class").Class)
  add_table(entries, "distribution:", "distributions", require("optlua.distributions.distribution").Distribution)
  add_table(entries, "schedule:", "schedule", optlua.schedule.Schedule)
  add_table(entries, "spec:", "library", getmetatable(optlua.spec { name = "any" }).__index)
  add_table(entries, "state:", "library", require("optlua.spec.state").State)
  for _, name in ipairs { "register", "value" } do
    entries[#entries + 1] = function_entry("schedule." .. name, "schedule", optlua.schedule[name])
  end
  add_objects(entries)
end

-- Looking up -------------------------------------------------------------------------------------------

--- Every entry, page by page.
---@return optlua.doc.Entry[]
function doc.entries()
  local entries = {}
  add_ops(entries)
  add_fields(entries)
  add_modules(entries)
  add_operations(entries)
  add_optimizers(entries)
  topics.add_schedules(entries, option_line)
  topics.add_spec(entries)
  topics.add_options(entries, option_line)
  topics.add_commands(entries)
  topics.add_parts(entries)
  return entries
end

local function last_part(name) return name:match "[%w_]+$" end

-- Whether an entry is meant by a name: whole, or only its last parts.
local function is_meant(entry, name, change)
  local full, wanted = change(entry.name), change(name)
  return full == wanted or last_part(full) == wanted or full:sub(-#wanted - 1) == "." .. wanted
end

local function as_is(text) return text end

-- "Module.save", "model:save" and "nn.Module.save" are module:save; "optlua.data.digits" is data.digits.
local function loosely(text)
  return (text:lower():gsub("^optlua%.", ""):gsub("^nn%.module", "module"):gsub("^model([.:])", "module%1"):gsub("[.:]", "."))
end

--- The entries of a name, whole ("nn.Linear") or only its last part ("Linear"); where there is none, those
--- that differ in small and capital letters only.
---@param name string
---@return optlua.doc.Entry[]
function doc.find(name)
  local entries, names = doc.entries(), {}
  for _, change in ipairs { as_is, string.lower, loosely } do
    local found = {}
    for _, entry in ipairs(entries) do
      if is_meant(entry, name, change) then found[#found + 1] = entry end
    end
    if #found > 0 then return found end
  end
  for k, entry in ipairs(entries) do names[k] = last_part(entry.name) end
  local near = options.nearest(name, names)
  error(("doc: nothing is called %q%s"):format(name, near and (" (did you mean %q?)"):format(near) or ""), 0)
end

--- An entry as text.
---@param entry optlua.doc.Entry
---@return string
function doc.text(entry)
  local parts = { entry.signature, "" }
  for line in entry.text:gmatch "[^\n]*" do parts[#parts + 1] = line == "" and "" or "  " .. line end
  if entry.example and not entry.text:find("    ", 1, true) then
    parts[#parts + 1] = ""
    for line in entry.example:gmatch "[^\n]+" do parts[#parts + 1] = "      " .. line end
  end
  return table.concat(parts, "\n")
end

--- Prints what a name stands for; an unknown one raises and names the nearest. Without one: what there is.
---@param name? string|table such as "AdamW", "nn.Linear", "tensor:sum"; or a class of layers or optimizers
---@param ... string|table further ones
function doc.print(name, ...)
  if name == nil then return print(topics.overview()) end
  if type(name) == "table" then name = rawget(name, "name") end
  if type(name) ~= "string" then error('help: a name expected, as in help "AdamW"', 0) end
  for k, entry in ipairs(doc.find(name)) do
    if k > 1 then print "" end
    print(doc.text(entry))
  end
  if ... == nil then return end
  print ""
  doc.print(...)
end

return doc
