--- overview: what an optimizer will do, as text: its plan, the reasons of one parameter, its curves.
local options = require "optlua.options"
local blame = require "optlua.blame"
local chart = require "optlua.chart"
local hyper = require "optlua.optim.hyper"
local memory = require "optlua.optim.memory"
local slots = require "optlua.optim.slots"
local shape = require "optlua.shape"
local storage = require "optlua.optim.storage"

local overview = {}

local function grouped(n)
  local text = tostring(n):reverse():gsub("(%d%d%d)", "%1,"):reverse()
  return (text:gsub("^,", ""))
end

local UNITS = { "bytes", "KiB", "MiB", "GiB", "TiB" }

--- A number of bytes as text.
---@param bytes integer
---@return string
function overview.size_text(bytes)
  local unit = 1
  while bytes >= 1024 and unit < #UNITS do bytes, unit = bytes / 1024, unit + 1 end
  return unit == 1 and ("%d bytes"):format(bytes) or ("%.1f %s"):format(bytes, UNITS[unit])
end

local function plural(count, word) return ("%s %s%s"):format(grouped(count), word, count == 1 and "" or "s") end

-- Bytes of state that a parameter will have.
local function state_bytes(layout, tensor)
  local bytes = 0
  for _, slot in ipairs(layout) do
    bytes = bytes + storage.bytes(slot, tensor)
  end
  return bytes
end

local function group_bytes(group)
  local layouts, of_shape = slots.layouts(group.class, group.shapes, group.values, group.of_shape, group)
  local bytes = 0
  for i, tensor in ipairs(group.params) do
    bytes = bytes + state_bytes(layouts[of_shape[group.shape_of[i]]], tensor)
  end
  return bytes + memory.bytes(group)
end

-- The base that a schedule multiplies, behind some words; nothing where it gives values itself.
local function base_text(group, name, words)
  return group.scheduled[name].absolute and "" or ("%s %s"):format(words, hyper.text(group.base[name]))
end

-- A value of a group, or of a container as a whole, and whether a schedule moves it.
local function value_text(group, name)
  local text = hyper.text(group:read(name))
  if group.scheduled[name] then text = ("%s (scheduled%s)"):format(text, base_text(group, name, ", base")) end
  return ("%s = %s"):format(name, text)
end

local function group_lines(group, lines)
  local words, elements, width = {}, 0, 0
  for i, name in ipairs(group.class.hyper_names) do words[i] = value_text(group, name) end
  for i, tensor in ipairs(group.params) do
    elements, width = elements + tensor:numel(), math.max(width, #group.names[i])
  end
  local bytes = group_bytes(group)
  lines[#lines + 1] = ("group %s: %s { %s }"):format(group.name, group.class.name, table.concat(words, ", "))
  lines[#lines + 1] = ("  %s, %s, %s of state%s"):format(plural(#group.params, "parameter"), plural(elements, "element"),
    overview.size_text(bytes), group.class.step and ", and what its step will keep" or "")
  local narrow = storage.text(group:layouts())
  if narrow then lines[#lines + 1] = "  states: " .. narrow end
  for i, tensor in ipairs(group.params) do
    local note = ""
    if group.sleeps then
      note = ("  frozen until update %d"):format(group.unfreeze_at)
    elseif not tensor.requires_grad then
      note = "  frozen"
    end
    lines[#lines + 1] = ("  %-" .. width .. "s  %s%s"):format(group.names[i], shape.text(tensor), note)
  end
  return #group.params, elements, bytes
end

-- The options of a container that are not as by default.
local function options_line(optimizer)
  local words, whole = {}, optimizer._whole
  if not whole then return nil end
  for _, name in ipairs(options.names(optimizer.settings)) do
    local value, default = optimizer._options[name], options.describe(optimizer.settings[name]).default
    local own = whole.class.hyper[name]
    if own then value = whole:read(name) end
    if value ~= nil and value ~= default then
      words[#words + 1] = own and value_text(whole, name) or ("%s = %s"):format(name, hyper.text(value))
    end
  end
  return #words > 0 and ("options { %s }"):format(table.concat(words, ", ")) or nil
end

--- Every parameter by group, with what updates it; totals; bytes of state.
---@param optimizer table
---@return string
function overview.plan(optimizer)
  local lines, count, elements, bytes = {}, 0, 0, 0
  for _, group in ipairs(optimizer._groups) do
    local n, e, b = group_lines(group, lines)
    count, elements, bytes = count + n, elements + e, bytes + b
  end
  for _, member in ipairs(optimizer._members) do lines[#lines + 1] = ("group %s: an optimizer of its own"):format(member.name) end
  lines[#lines + 1] = options_line(optimizer)
  if optimizer._updater then lines[#lines + 1] = "each parameter is updated in backward, as soon as its gradient is complete" end
  lines[#lines + 1] = ("%s: %s, %s, %s, %s of state"):format(optimizer._name, plural(#optimizer._groups, "group"),
    plural(count, "parameter"), plural(elements, "element"), overview.size_text(bytes))
  return table.concat(lines, "\n")
end

--- Bytes of state that an optimizer will have.
---@param optimizer table
---@return integer
function overview.state_bytes(optimizer)
  local bytes = 0
  for _, group in ipairs(optimizer._groups) do bytes = bytes + group_bytes(group) end
  return bytes
end

-- The group of a parameter and its place there.
local function find(optimizer, name)
  local names = {}
  for _, group in ipairs(optimizer._groups) do
    for i, own in ipairs(group.names) do
      if own == name then return group, i end
      names[#names + 1] = own
    end
  end
  blame(("%s: explain: %s"):format(optimizer._name, options.unknown("parameter", tostring(name), names)))
end

local function match_text(match)
  if type(match) == "function" then
    local info = debug.getinfo(match, "S")
    return ("a function (%s:%d)"):format(info.short_src, info.linedefined)
  end
  if type(match) == "string" then return ("%q"):format(match) end
  local words = {}
  for key, value in pairs(match) do
    words[#words + 1] = (math.type(key) and "" or key .. " = ") .. hyper.text(value)
  end
  table.sort(words)
  return "{ " .. table.concat(words, ", ") .. " }"
end

-- What the groups of a container say of a parameter.
local function match_lines(optimizer, group, i, lines)
  local taken = false
  for _, one in ipairs(optimizer._tests or {}) do
    local matches = one.test(group.names[i], group.params[i], group.modules[i] or nil)
    local word = "does not match"
    if matches then
      word = taken and "matches, but an earlier group took it" or "matches, and takes it"
      taken = true
    end
    lines[#lines + 1] = ("  group %s: %s: %s"):format(one.name, match_text(one.match), word)
  end
end

local function origin_text(group, name)
  if group.origin[name] then return group.origin[name] end
  return group.given and group.given[name] ~= nil and "the script" or "the default of " .. group.class.name
end

local function value_lines(group, lines)
  local scales = { lr = group.lr_scale, weight_decay = group.wd_scale }
  for _, name in ipairs(group.class.hyper_names) do
    local text = ("  %s = %s: from %s"):format(name, hyper.text(group:read(name)), origin_text(group, name))
    if scales[name] then text = text .. (", times %.14g"):format(scales[name]) end
    if group.scheduled[name] then
      text = ("%s, moved by %s%s"):format(text, group.scheduled[name].what, base_text(group, name, " from the base"))
    end
    lines[#lines + 1] = text
  end
end

--- Why a parameter is updated as it is.
---@param optimizer table
---@param name string
---@return string
function overview.explain(optimizer, name)
  local group, i = find(optimizer, name)
  local lines = { ("%s %s: group %s, %s"):format(name, shape.text(group.params[i]), group.name, group.class.name) }
  if not group.params[i].requires_grad then lines[#lines + 1] = "  frozen: it is not updated" end
  match_lines(optimizer, group, i, lines)
  value_lines(group, lines)
  return table.concat(lines, "\n")
end

local preview_options = {
  steps = { default = 100, integer = true, min = 1, max = 1000000 }, width = { default = 72, integer = true, min = 10 },
  height = { default = 12, integer = true, min = 2 }, path = { required = false, type = "string" },
}

-- What schedules move: groups, and the container as a whole.
local function holders(optimizer)
  local list = table.move(optimizer._groups, 1, #optimizer._groups, 1, {})
  list[#list + 1] = optimizer._whole or nil
  return list
end

-- The curves of the schedules of one hyperparameter from now on; groups without one are level.
local function curves(optimizer, name, steps)
  local lines, now = {}, optimizer._clock.updates
  for _, group in ipairs(holders(optimizer)) do
    if group.scheduled[name] then
      local line = { name = ("%s of %s"):format(name, group.name) }
      for k = 1, steps do
        local value = group:value_at(name, now + k - 1)
        line[k] = type(value) == "table" and value[group.scheduled[name].element] or value
      end
      lines[#lines + 1] = line
    end
  end
  return lines
end

--- The curves of all hyperparameters that move, a chart each.
---@param optimizer table
---@param opts? table
---@return string
function overview.preview(optimizer, opts)
  opts = options.check("preview", opts, preview_options)
  local moved, texts = {}, {}
  for _, group in ipairs(holders(optimizer)) do
    for name in pairs(group.scheduled) do moved[name] = true end
  end
  local names = options.names(moved)
  for _, name in ipairs(names) do
    local path = opts.path
    if path and #names > 1 then path = path:gsub("%.svg$", "") .. "." .. name .. ".svg" end
    texts[#texts + 1] = chart.draw(curves(optimizer, name, opts.steps),
      { width = opts.width, height = opts.height, path = path })
  end
  if #texts == 0 then return "no hyperparameter is moved by a schedule" end
  return table.concat(texts, "\n")
end

return overview
