--- curve: what a schedule is: a pure function of the number of updates, and how schedules are combined.
--
-- Most are factors on the base value of a hyperparameter. An absolute one gives the value itself, and may
-- look at the base.
local options = require "optlua.options"
local blame = require "optlua.blame"
local uninterrupted = require("optlua.core").hidden.uninterrupted

---@class optlua.Schedule
---@field name string
---@field absolute boolean whether it gives values, not factors
---@field length integer? after how many updates the next one follows
---@field continues boolean? whether, behind another schedule, its base is the value that the other ends with
---@field source table? what in it remembers, and waits for a metric: it has `memory` and advance(metric)
---@field others table<string, optlua.Schedule>? schedules of other hyperparameters that belong to it
local Schedule = {}
Schedule.__index = Schedule
Schedule.__name = "schedule"

local curve = { Schedule = Schedule }

--- Makes a schedule of a function (updates, base) that returns a factor or, if absolute, a value.
---@param name string
---@param fn fun(updates: integer, base: number?): number
---@param fields? { absolute?: boolean, length?: integer, others?: table, continues?: boolean }
---@return optlua.Schedule
function curve.new(name, fn, fields)
  local self = { name = name, fn = fn, absolute = false }
  for key, value in pairs(fields or {}) do self[key] = value end
  return setmetatable(self, Schedule)
end

--- Whether a value is a schedule.
---@param value any
---@return boolean
function curve.is(value) return getmetatable(value) == Schedule end

--- A schedule; one made of a function that gives factors, or of an object with a method `at`.
---@param what string whose argument it is
---@param value any
---@return optlua.Schedule
function curve.of(what, value)
  if curve.is(value) then return value end
  if type(value) == "table" and type(value.at) == "function" then
    return curve.new("object", function(...) return value:at(...) end,
      { absolute = value.absolute and true or false, others = value.others, source = value.advance and value or nil })
  end
  if type(value) ~= "function" then
    blame(("%s: a schedule or a function expected, got a %s"):format(what, type(value)))
  end
  return curve.new("lambda", value)
end

--- The factor on the base after some updates (from 0), or, of an absolute schedule, the value. Some absolute
--- schedules need to know the base.
---@param updates integer
---@param base? number
---@return number
function Schedule:at(updates, base)
  if math.type(updates) ~= "integer" or updates < 0 then
    updates = options.argument("schedule:at", "updates", updates, { required = true, type = "integer", min = 0 })
  end
  return self.fn(updates, base)
end

--- The value of a hyperparameter with this base.
---@param updates integer
---@param base number
---@return number
function Schedule:value(updates, base)
  local result = self.fn(updates, base)
  return self.absolute and result or base * result
end

-- Combining ------------------------------------------------------------------------------------------------

-- What remembers, and waits for a metric, in one of two schedules.
local function source_of(what, a, b)
  if a.source and b.source and a.source ~= b.source then blame(what .. ": both wait for a metric; one of two can") end
  return a.source or b.source
end

-- The schedules of other hyperparameters that belong to one of two, combined; where one has none, with the factor 1.
local function others_of(a, b, combine)
  if not a.others and not b.others then return nil end
  local one, result = curve.new("1", function() return 1.0 end), {}
  for _, each in ipairs { a, b } do
    for name in pairs(each.others or {}) do
      result[name] = combine(a.others and a.others[name] or one, b.others and b.others[name] or one)
    end
  end
  return result
end

--- The product: of factors a factor, of a factor and a value a value.
function Schedule.__mul(a, b)
  if type(a) == "number" or type(b) == "number" then
    local self, number = curve.is(a) and a or b, type(a) == "number" and a or b
    return curve.new(("%.14g * %s"):format(number, self.name),
      function(updates, base) return number * self.fn(updates, base) end,
      { absolute = self.absolute, others = self.others, source = self.source })
  end
  a, b = curve.of("schedule *", a), curve.of("schedule *", b)
  if a.absolute and b.absolute then blame "schedule *: both give values; one of two is a factor" end
  return curve.new(("%s * %s"):format(a.name, b.name),
    function(updates, base) return a.fn(updates, base) * b.fn(updates, base) end, {
      absolute = a.absolute or b.absolute, source = source_of("schedule *", a, b),
      others = others_of(a, b, function(x, y) return x * y end),
    })
end

local count = { type = "integer", required = true, min = 0 }

--- Ends after n updates: `next` says what follows. Alone, it stays at the value of update n.
---@param n integer
---@return optlua.Schedule
function Schedule:for_steps(n)
  n = options.argument("schedule:for_steps", "n", n, count)
  return curve.new(("%s:for_steps(%d)"):format(self.name, n),
    function(updates, base) return self.fn(math.min(updates, n), base) end,
    { absolute = self.absolute, length = n, source = self.source,
      others = others_of(self, {}, function(x) return x:for_steps(n) end) })
end

--- What follows a schedule that ends; it begins at its own update 0, and SWALR with the value that the other ends with.
---@param other optlua.Schedule|function
---@return optlua.Schedule
function Schedule:next(other)
  other = curve.of("schedule:next", other)
  local n = self.length
  if not n then blame(("schedule:next: %s has no end; say :for_steps(n) first"):format(self.name)) end
  local absolute = self.absolute or other.absolute
  local function fn(updates, base)
    if updates < n then return absolute and self:value(updates, base) or self.fn(updates) end
    if other.continues then base = self:value(n, base) end
    return absolute and other:value(updates - n, base) or other.fn(updates - n)
  end
  return curve.new(("%s:next(%s)"):format(self.name, other.name), fn,
    { absolute = absolute, length = other.length and n + other.length, source = source_of("schedule:next", self, other),
      others = others_of(self, other, function(x, y) return x:for_steps(n):next(y) end) })
end

--- Keeps what it gives, factors or values, within bounds; either may be left out.
---@param low number?
---@param high number?
---@return optlua.Schedule
function Schedule:clamp(low, high)
  for name, bound in pairs { low = low, high = high } do
    options.argument("schedule:clamp", name, bound, { required = true, type = "number" })
  end
  low, high = low or -math.huge, high or math.huge
  if low > high then blame(("schedule:clamp: low %.14g is above high %.14g"):format(low, high)) end
  return curve.new(("%s:clamp(%.14g, %.14g)"):format(self.name, low, high),
    function(updates, base) return math.max(low, math.min(high, self.fn(updates, base))) end,
    { absolute = self.absolute, length = self.length, others = self.others, source = self.source })
end

-- Looking ----------------------------------------------------------------------------------------------------

-- Updates at which a schedule is sampled: dense at first, then by powers of two.
local points = {}
for k = 0, 15 do points[k + 1] = k end
for e = 4, 14 do
  points[#points + 1] = 1 << e
  points[#points + 1] = 3 << (e - 1)
end

--- Numbers by which an edited schedule is noticed: its values for the base 1 at the updates `points`; false
--- where it raises.
---@return (number|false)[] values
---@return integer[] points
function Schedule:fingerprint()
  local list = {}
  for k, updates in ipairs(points) do
    local ok, value = uninterrupted(pcall, self.value, self, updates, 1.0)
    list[k] = ok and type(value) == "number" and value
  end
  return list, points
end

--- The curve as text for the terminal or, with `path`, as an SVG file.
---@param opts? { steps?: integer, base?: number, width?: integer, height?: integer, path?: string }
---@return string
function Schedule:preview(opts)
  local chart = require "optlua.chart"
  opts = options.check("schedule:preview", opts, {
    steps = { default = 100, integer = true, min = 1, max = 1000000 }, base = 1.0, width = { default = 72, integer = true, min = 10 },
    height = { default = 12, integer = true, min = 2 }, path = { required = false, type = "string" },
  })
  local line = { name = self.name }
  for updates = 0, opts.steps - 1 do line[updates + 1] = self:value(updates, opts.base) end
  return chart.draw({ line }, opts)
end

function Schedule:__tostring() return ("schedule %s"):format(self.name) end

return curve
