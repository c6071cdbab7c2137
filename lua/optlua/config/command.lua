--- command: the command line of a config: --key=value and --key value, config files, and switches.
local options = require "optlua.options"
local text = require "optlua.config.text"

local command = {}

-- Whether the place of a path holds a boolean: --flag alone then means true.
local function is_boolean(config, path)
  local schema = config.schema
  for i, key in ipairs(path) do
    local described = type(schema) == "table" and schema[key]
    if i == #path then return type(options.describe(described).default) == "boolean" end
    schema = described
  end
end

local function split(name)
  local path = {}
  for key in name:gmatch "[^.]+" do path[#path + 1] = key end
  return path
end

-- The value of an option: behind "=", or the next word.
local function take_value(words, i, value)
  if value then return value, i end
  local following = words[i + 1]
  if following == nil or following:find "^%-%-" then return nil, i end
  return following, i + 1
end

--- Reads the words of a command line into a config and into switches.
---@param words string[]
---@param config optlua.Config
---@param switches table<string, "flag"|"value"|"optional"> names of switches that are not keys of the config
---@return table<string, any> given switches; of a flag true
---@return string[] problems
function command.read(words, config, switches)
  local given, problems, settings, i = { config = {} }, {}, {}, 1
  for _, name in ipairs(options.names(switches)) do
    if config.schema[name] ~= nil then
      problems[1] = ("the key %q of the script's config is a switch of the command line; call it something else"):format(name)
    end
  end
  while i <= #words do
    local name, value = words[i]:match "^%-%-([^=]+)=(.*)$"
    name = name or words[i]:match "^%-%-(.+)$"
    local kind = name and switches[name]
    if not name then
      problems[#problems + 1] = ("%q: options begin with --"):format(words[i])
    elseif kind == "flag" then
      given[name] = true
      if value then problems[#problems + 1] = ("--%s takes no value"):format(name) end
    else
      local path = split(name)
      if kind or value or not is_boolean(config, path) then
        value, i = take_value(words, i, value)
      elseif words[i + 1] == "true" or words[i + 1] == "false" then
        value, i = take_value(words, i, value)
      else
        value = "true"
      end
      if not value and kind ~= "optional" or value == "" and kind == "value" then
        problems[#problems + 1] = ("--%s: a value is missing"):format(name)
      elseif name == "config" then
        table.insert(given.config, value)
      elseif kind then
        given[name] = value or true
      else
        settings[#settings + 1] = { path, value }
      end
    end
    i = i + 1
  end
  for _, path in ipairs(given.config) do config:read(path) end
  for _, setting in ipairs(settings) do
    config:set(setting[1], text.read(setting[2]), "--" .. table.concat(setting[1], "."), setting[2])
  end
  return given, problems
end

return command
