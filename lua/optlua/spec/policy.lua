--- policy: whose values hold, key by key, where a run goes on and its config and its checkpoint differ.
--
--   config              those of the config: the script's, of config files, of the command line
--   checkpoint          those of the checkpoint, but for keys that config files and the command line give
--   rebase              those of the config, and a schedule that was edited begins anew
--   P,KEY=P,…           for single keys, or sections, another one: checkpoint,lr_scheduler=config
local choice = require "optlua.config.choice"
local file = require "optlua.config.file"
local options = require "optlua.options"

local policy = {}

---@class optlua.Policy
---@field default string
---@field keys table<string, string>
---@field given table<string, boolean> keys of the command line
local Policy = {}
Policy.__index = Policy

local choices = { "config", "checkpoint", "rebase" }
local legal = { config = true, checkpoint = true, rebase = true }

local function is_section(value) return type(value) == "table" and getmetatable(value) == nil and value[1] == nil and next(value) ~= nil end

-- A list of groups by their names, for comparison.
local function by_name(groups)
  local named = {}
  for i, group in ipairs(groups) do
    if type(group) ~= "table" then return groups end
    named[group.name or "group" .. i] = group
  end
  return named
end

-- The values of nested tables by dotted keys; lists stay whole.
local function flatten(values, into, above)
  for key, value in pairs(values) do
    local name = above and above .. "." .. key or tostring(key)
    if is_section(value) then flatten(value, into, name) else into[name:gsub("%.init_args%.", ".")] = value end
  end
  return into
end

--- The policy that a word means; nil: config.
---@param word string?
---@param given? table what the command line gives: `set`, keys, and `config`, files
---@return optlua.Policy? self
---@return string? problem
function policy.new(word, given)
  local self = setmetatable({ default = "config", keys = {}, given = {} }, Policy)
  for item in (word or ""):gmatch "[^,]+" do
    local key, value = item:match "^([%w_.]+)=(%w+)$"
    value = value or item
    if not legal[value] then
      return nil, ("config, checkpoint or rebase expected, or KEY=one of them, got %s (legal: %s)"):format(item, table.concat(choices, ", "))
    end
    if key then self.keys[key] = value else self.default = value end
  end
  for _, name in ipairs(given and given.set or {}) do self.given[name] = true end
  for _, path in ipairs(given and given.config or {}) do
    for name in pairs(flatten(file.read(path) or {}, {})) do self.given[name] = true end
  end
  return self
end

--- Whose value holds for a key: of the command line, that of the config; else as it or a section that it is in was named; else
--- the policy for all. Of several names of one thing the first that is known counts.
---@param ... string keys
---@return string
function Policy:of(...)
  for _, key in ipairs { ... } do
    local name = key
    while name do
      if self.given[name] then return "config" end
      if self.keys[name] then return self.keys[name] end
      name = name:match "^(.*)%.[^.]+$"
    end
  end
  return self.default
end

--- Whether a value of the checkpoint may hold anywhere.
function Policy:asks_checkpoint()
  if self.default == "checkpoint" then return true end
  for _, value in pairs(self.keys) do
    if value == "checkpoint" then return true end
  end
  return false
end

local function parse(text) return file.parse_lua(text or "return {}", "the checkpoint's config") or {} end

-- The values of a config's text by dotted keys, those of groups by their names.
local function read(text)
  local values = parse(text)
  if type(values.groups) == "table" then values.groups = by_name(values.groups) end
  return flatten(values, {})
end

-- What a config can be given: keys, arguments of what is chosen, and of groups; add(name) notes a name.
local function add_settable(config, add)
  local function add_all(prefix, arguments)
    for name in pairs(arguments or {}) do add(("%s.%s"):format(prefix, name)) end
  end
  local function add_sections(values, path)
    for key, value in pairs(values) do
      local own = table.move(path, 1, #path, 1, {})
      own[#own + 1] = key
      local kind = type(key) == "string" and choice.kind(own)
      if kind and type(value) == "table" then add_all(table.concat(own, "."), (choice.arguments(kind, value)))
      elseif #path == 0 and type(value) == "table" and choice.kind { key, "x" } then add_sections(value, own) end
    end
  end
  local values = config.values
  for key in pairs(config.schema) do add(key) end
  add_sections(values, {})
  if not values.optimizer then return end
  add_all("groups.default", (choice.group_arguments({}, values.optimizer.class)))
  for i, group in ipairs(values.groups or {}) do
    add_all("groups." .. tostring(group.name or "group" .. i), (choice.group_arguments(group, values.optimizer.class)))
  end
end

-- Of names those in the section of a name; where there is no such section, those at the top.
local function siblings(name, known)
  local section = name:match "^(.*)%.[^.]+$"
  local found = {}
  for other in pairs(known) do
    if other:match "^(.*)%.[^.]+$" == (known[section] and section or nil) then found[#found + 1] = other end
  end
  table.sort(found)
  return found
end

--- What is wrong with the keys that were named: neither the config nor the checkpoint's has such a one.
---@param config optlua.Config
---@param saved string? the text of the config that was saved
---@return string? problem
function Policy:check(config, saved)
  local known = {}
  local function add(name)
    while name do known[name], name = true, name:match "^(.*)%.[^.]+$" end
  end
  for _, values in ipairs { read(config:text()), read(saved) } do
    for name in pairs(values) do add(name) end
  end
  add_settable(config, add)
  for _, name in ipairs(options.names(self.keys)) do
    if not known[name] then return options.unknown("key", name, siblings(name, known)) end
  end
end

local function split(name)
  local path = {}
  for key in name:gmatch "[^.]+" do path[#path + 1] = key end
  return path
end

--- Puts the checkpoint's values into a config that nothing was put into yet, where they hold.
---@param config optlua.Config
---@param saved string? the text of the config that was saved
function Policy:apply(config, saved)
  local values = flatten(parse(saved), {})
  local names = options.names(values)
  table.sort(names, function(a, b) -- a class comes before its arguments
    local one, other = a:find "%.class$" ~= nil, b:find "%.class$" ~= nil
    if one ~= other then return one end
    return a < b
  end)
  for _, name in ipairs(names) do
    if self:of(name) == "checkpoint" then config:set(split(name), values[name], "the checkpoint") end
  end
end

local function show(value)
  if value == nil then return "nothing" end
  return require("optlua.config.text").write(value)
end

--- What differs between two configs, a line for each key.
---@param now string text of a config
---@param saved string? that which was saved
---@return { key: string, now: string, saved: string, line: string }[] values as text
function policy.differences(now, saved)
  local a, b, names, list = read(now), read(saved), {}, {}
  for name in pairs(a) do names[name] = true end
  for name in pairs(b) do names[name] = true end
  for _, name in ipairs(options.names(names)) do
    local one, other = show(a[name]), show(b[name])
    if one ~= other then list[#list + 1] = { key = name, now = one, saved = other, line = ("%s: %s, was saved as %s"):format(name, one, other) } end
  end
  return list
end

return policy
