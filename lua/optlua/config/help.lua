--- help: what a config can be told, as text: names, types, ranges, defaults, meanings.
local options = require "optlua.options"
local choice = require "optlua.config.choice"
local key_of = require "optlua.config.key"
local text = require "optlua.config.text"

local help = {}

local function type_text(option, value)
  if option.choices then
    local words = {}
    for i, word in ipairs(option.choices) do words[i] = tostring(word) end
    return table.concat(words, "|")
  end
  if option.type then return option.type end
  if option.integer or math.type(value) == "integer" and option.default == nil then return "integer" end
  if type(value) == "table" then return "list" end
  return value == nil and "any" or type(value)
end

local bounds = { { "min", ">= " }, { "max", "<= " }, { "above", "> " }, { "below", "< " } }

local function describe(name, option, value, filled)
  local words = {}
  if option.doc then words[1] = option.doc .. "." end
  for _, bound in ipairs(bounds) do
    if option[bound[1]] then words[#words + 1] = ("%s%.14g"):format(bound[2], option[bound[1]]) end
  end
  if value ~= nil then words[#words + 1] = "[" .. text.write(value) .. "]" end
  if option.required and value == nil then words[#words + 1] = filled and "[updates of the run]" or "(required)" end
  local kind = type_text(option, value == nil and option.default or value)
  return { ("--%s %s"):format(name, kind), table.concat(words, " ") }
end

local function add_lines(lines, title, rows)
  if #rows == 0 then return end
  lines[#lines + 1] = ""
  lines[#lines + 1] = title
  local width = 0
  for _, row in ipairs(rows) do width = math.max(width, math.min(#row[1], 38)) end
  for _, row in ipairs(rows) do
    lines[#lines + 1] = (("  %-" .. width .. "s  %s"):format(row[1], row[2]):gsub("%s+$", ""))
  end
end

-- Rows of the plain values; choices are put aside.
local function collect(schema, values, path, rows, choices)
  for _, key in ipairs(options.names(schema)) do
    local own = table.move(path, 1, #path, 1, {})
    own[#own + 1] = key
    local name = table.concat(own, ".")
    if choice.kind(own) then
      if values[key] then choices[#choices + 1] = { name, own, values[key] } end
    elseif name == "groups" then
      choices.groups = values.groups
    elseif key_of.is_section(schema[key]) then
      collect(schema[key], values[key] or {}, own, rows, choices)
    else
      rows[#rows + 1] = describe(name, options.describe(schema[key]), values[key])
    end
  end
end

local function add_choice(lines, config, name, path, section)
  local legal, problem, doc = choice.arguments(choice.kind(path), section)
  local open, groups = config.open, config.values.groups
  local class = type(section.class) == "string" and section.class or text.write(section.class)
  if not legal then
    add_lines(lines, ("%s: %s"):format(name, problem), {})
    return
  end
  if name == "optimizer" and type(groups) == "table" and choice.other_classes(section, groups) then
    for _, key in ipairs(choice.hypers(legal)) do legal[key] = nil end -- no group takes them
  end
  local rows = { { ("--%s NAME"):format(name), ("another one [%s]"):format(class) } }
  for _, key in ipairs(options.names(legal)) do
    local option = options.describe(legal[key])
    local value = section[key]
    if value == nil and open and choice.kind(path) == "optimizer" then value = choice.spec_defaults[key] end
    if value == nil then value = option.default end
    rows[#rows + 1] = describe(name .. "." .. key, option, value, open and choice.is_length[key])
  end
  add_lines(lines, ("%s: %s%s"):format(name, class, doc and " (" .. doc .. ")" or ""), rows)
end

local function add_groups(lines, groups)
  local rows = {}
  for _, group in ipairs(groups or {}) do
    local words = {}
    for _, key in ipairs(options.names(group)) do
      if key ~= "name" then words[#words + 1] = ("%s = %s"):format(key, text.write(group[key])) end
    end
    rows[#rows + 1] = { ("--groups.%s.KEY"):format(tostring(group.name)), table.concat(words, ", ") }
  end
  add_lines(lines, "groups: what a group leaves out comes from optimizer, unless it has another class; what no group takes is an error", rows)
end

-- What was chosen though the script's table lacks it.
local function add_unforeseen(config, choices)
  if not config.open then return end
  for _, kind in ipairs(options.names(choice.names())) do
    if config.schema[kind] == nil and config.values[kind] then choices[#choices + 1] = { kind, { kind }, config.values[kind] } end
  end
end

-- A row, or several, of at most 100 characters.
local function add_words(rows, title, words)
  local line = ""
  for _, word in ipairs(words) do
    if #line + #word > 75 then
      rows[#rows + 1] = { title, line }
      title, line = "", ""
    end
    line = line == "" and word or line .. " " .. word
  end
  rows[#rows + 1] = { title, line }
end

-- The names that can be chosen.
local function add_names(lines, config)
  local rows = {}
  local names = choice.names()
  for _, kind in ipairs(options.names(names)) do
    if #names[kind] > 0 and not (config.closed and config.closed[kind] and config.schema[kind] == nil) and not (config.unread and config.unread[kind])
      and (config.open or config.schema[kind] ~= nil) then
      add_words(rows, ("--%s NAME"):format(kind), names[kind])
    end
  end
  add_lines(lines, "what can be chosen by NAME; of an optimizer of your own, the module that returns it (mine for mine.lua); what else is your own "
    .. "has a name when the script registers it (schedule.register):", rows)
end

--- What a config takes, as text.
---@param config optlua.Config
---@param usage string
---@param switches table[] { "--plan", "what it does" } each
---@return string
function help.text(config, usage, switches)
  local lines, rows, choices = { usage }, {}, {}
  collect(config.schema, config.values, {}, rows, choices)
  add_unforeseen(config, choices)
  add_lines(lines, "switches:", switches)
  add_lines(lines, "values, with their defaults in brackets (a list: --key=0.9,0.99 or --key='{ 0.9, 0.99 }'):", rows)
  local unread = config.unread or {}
  for _, item in ipairs(choices) do
    if not unread[item[2][1]] then add_choice(lines, config, table.unpack(item)) end
  end
  if not unread.groups then add_groups(lines, choices.groups) end
  add_names(lines, config)
  return table.concat(lines, "\n")
end

return help
