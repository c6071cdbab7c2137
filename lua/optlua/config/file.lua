--- file: config files: Lua data, JSON, YAML.
local files = require "optlua.files"
local text = require "optlua.config.text"

local file = {}

local STEPS = 1000000 -- that a config in Lua may take

--- The values of a config in Lua: data, which computes nothing for long.
---@param source string
---@param path string for messages
---@return any value
---@return string? problem
function file.parse_lua(source, path)
  local chunk, problem = load(source, "@" .. path, "t", { math = { huge = math.huge, pi = math.pi }, null = text.null })
  if not chunk then return nil, problem end
  local thread = coroutine.create(chunk)
  debug.sethook(thread, function() error("a config is data, and computes nothing for long", 2) end, "", STEPS)
  local ok, value = coroutine.resume(thread)
  if not ok then return nil, tostring(value) end
  return value
end

-- What lyaml lets pass in an event: a key that comes twice, an integer that becomes a float. `top` is the
-- mapping or list that the event stands in.
local function check_event(event, top)
  local line = event.start_mark.line + 1
  if event.type == "SCALAR" and top.expects_key then
    if top.keys[event.value] then return ("line %d: the key %q stands there twice"):format(line, event.value) end
    top.keys[event.value] = true
  end
  if event.type == "SCALAR" and event.style == "PLAIN" and event.value:find "^[+-]?%d+$"
    and math.type(tonumber(event.value)) == "float" then
    return ("line %d: the integer %s has more than 64 bits"):format(line, event.value)
  end
end

local function check_yaml(source)
  local stack, documents = { {} }, 0
  for event in require("yaml").parser(source) do
    local top, kind = stack[#stack], event.type
    if kind == "STREAM_END" then return nil end
    if kind == "DOCUMENT_START" then documents = documents + 1 end
    if documents > 1 then return ("line %d: a second document begins; a config is one"):format(event.start_mark.line + 1) end
    if kind == "SCALAR" or kind == "ALIAS" or kind == "MAPPING_START" or kind == "SEQUENCE_START" then
      local problem = check_event(event, top)
      if problem then return problem end
      if top.keys then top.expects_key = not top.expects_key end
    end
    if kind == "MAPPING_START" then stack[#stack + 1] = { keys = {}, expects_key = true } end
    if kind == "SEQUENCE_START" then stack[#stack + 1] = {} end
    if kind == "MAPPING_END" or kind == "SEQUENCE_END" then stack[#stack] = nil end
  end
end

-- YAML's null as ours; and tables of lyaml as plain ones.
local function plain(value, null)
  if value == null then return text.null end
  if type(value) ~= "table" then return value end
  local copy = {}
  for key, item in pairs(value) do copy[key] = plain(item, null) end
  return copy
end

local function from_yaml(source)
  local found, lyaml = pcall(require, "lyaml")
  if not found then return nil, "YAML needs the package lua-yaml (scripts/setup installs it)" end
  local parsed, problem = pcall(check_yaml, source)
  if not parsed or problem then return nil, (tostring(problem):gsub("^.-:%d+: ", "")) end
  local ok, value = pcall(lyaml.load, source)
  if not ok then return nil, (tostring(value):gsub("^.-:%d+: ", "")) end
  return plain(value, lyaml.null)
end

local readers = { lua = file.parse_lua, json = text.json, yaml = from_yaml, yml = from_yaml }

--- Reads a config file by the end of its name: .lua (data: `return { … }`, in which `null` deletes), .json, .yaml, .yml.
---@param path string
---@return table? values
---@return string? problem
function file.read(path)
  local reader = readers[path:match "%.(%a+)$"]
  if not reader then return nil, ("%s: a config ends with .lua, .json, .yaml or .yml"):format(path) end
  local source, problem = files.read(path)
  if not source then return nil, problem end
  local value
  value, problem = reader(source, path)
  if problem then return nil, problem:find(path, 1, true) and problem or ("%s: %s"):format(path, problem) end
  if type(value) ~= "table" or value == text.null then
    local got = value == nil and "nothing" or value == text.null and "null" or "a " .. type(value)
    return nil, ("%s: a table expected, got %s"):format(path, got)
  end
  return value
end

return file
