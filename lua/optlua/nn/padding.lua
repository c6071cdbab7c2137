--- padding: layers that add elements around lines and images, or cut them off where sizes are negative.
local optlua = require "optlua"
local blame = require "optlua.blame"
local module = require "optlua.nn.module"
local window = require "optlua.nn.window"
local signature = require "optlua.signature"

local sizes = { required = true, type = "integer|list", integer = true }

--- A class that pads the last `spatial` dimensions; `padding` is one number for all sides, or left, right (, top,
--- bottom).
---@param name string
---@param spatial integer
---@param mode string
---@param valued? boolean whether a constant is to be given
local function pad(name, spatial, mode, valued)
  local class, what = module.class(name), "nn." .. name
  class.signature = signature.new(what,
    { { "padding", sizes }, valued and { "value", { required = true, type = "number" } } or nil })

  function class:init(...)
    local args = self.signature:read(...)
    local padding = args.padding
    if type(padding) == "table" and #padding ~= 2 * spatial then
      blame(("%s: padding: expected 1 or %d numbers, got %d"):format(what, 2 * spatial, #padding))
    end
    if type(padding) ~= "table" then
      local every = padding
      padding = {}
      for k = 1, 2 * spatial do padding[k] = every end
    end
    self.padding = padding
    self.value = args.value
  end

  function class:forward(x)
    if x.ndim ~= spatial + 1 and x.ndim ~= spatial + 2 then
      blame(("%s: expected an input of %d or %d dimensions, got %d"):format(what, spatial + 1, spatial + 2, x.ndim))
    end
    return optlua.pad(x, self.padding, mode, self.value or 0)
  end

  function class:extra_repr()
    local padding = window.text(self.padding)
    return valued and ("padding=%s, value=%.14g"):format(padding, self.value) or padding
  end

  return class
end

--- Samples of a class that pads lines, and of one that pads images.
local lines = [[
  { { 2%s }, t(2, 3, 5) },
  { { { 1, 3 }%s }, t(3, 5) },
  { { { 2, 0 }%s }, t(5, 3, 2):transpose(1, 3) },
  { { 1%s }, t(0, 3, 5) },
]]
local images = [[
  { { 2%s }, t(2, 3, 4, 5) },
  { { { 1, 3, 0, 2 }%s }, t(3, 4, 5) },
  { { { 2, 0, 1, 1 }%s }, t(5, 4, 3, 2):transpose(1, 4) },
  { { 1%s }, t(0, 3, 4, 5) },
]]

local function samples(text, value)
  return (text:gsub("%%s", value or ""))
end

--- A constant around lines: (N, C, L) or (C, L).
---@class nn.ConstantPad1d: nn.Module
local ConstantPad1d = pad("ConstantPad1d", 1, "constant", true)
ConstantPad1d.samples = samples(lines, ", 1.5")

--- A constant around images: (N, C, H, W) or (C, H, W).
---@class nn.ConstantPad2d: nn.Module
local ConstantPad2d = pad("ConstantPad2d", 2, "constant", true)
ConstantPad2d.samples = samples(images, ", 1.5")

--- Zeros around lines: (N, C, L) or (C, L).
---@class nn.ZeroPad1d: nn.Module
local ZeroPad1d = pad("ZeroPad1d", 1, "constant")
ZeroPad1d.samples = samples(lines)

--- Zeros around images: (N, C, H, W) or (C, H, W).
---@class nn.ZeroPad2d: nn.Module
local ZeroPad2d = pad("ZeroPad2d", 2, "constant")
ZeroPad2d.samples = samples(images)

--- Lines mirrored at their ends, which are not repeated: (N, C, L) or (C, L).
---@class nn.ReflectionPad1d: nn.Module
local ReflectionPad1d = pad("ReflectionPad1d", 1, "reflect")
ReflectionPad1d.samples = samples(lines)

--- Images mirrored at their borders, which are not repeated: (N, C, H, W) or (C, H, W).
---@class nn.ReflectionPad2d: nn.Module
local ReflectionPad2d = pad("ReflectionPad2d", 2, "reflect")
ReflectionPad2d.samples = samples(images)

--- Lines whose ends are repeated: (N, C, L) or (C, L).
---@class nn.ReplicationPad1d: nn.Module
local ReplicationPad1d = pad("ReplicationPad1d", 1, "replicate")
ReplicationPad1d.samples = samples(lines)

--- Images whose borders are repeated: (N, C, H, W) or (C, H, W).
---@class nn.ReplicationPad2d: nn.Module
local ReplicationPad2d = pad("ReplicationPad2d", 2, "replicate")
ReplicationPad2d.samples = samples(images)

--- Lines that go on with their other end: (N, C, L) or (C, L).
---@class nn.CircularPad1d: nn.Module
local CircularPad1d = pad("CircularPad1d", 1, "circular")
CircularPad1d.samples = samples(lines)

--- Images that go on with their other side: (N, C, H, W) or (C, H, W).
---@class nn.CircularPad2d: nn.Module
local CircularPad2d = pad("CircularPad2d", 2, "circular")
CircularPad2d.samples = samples(images)

return {
  ConstantPad1d = ConstantPad1d, ConstantPad2d = ConstantPad2d, ZeroPad1d = ZeroPad1d, ZeroPad2d = ZeroPad2d,
  ReflectionPad1d = ReflectionPad1d, ReflectionPad2d = ReflectionPad2d, ReplicationPad1d = ReplicationPad1d,
  ReplicationPad2d = ReplicationPad2d, CircularPad1d = CircularPad1d, CircularPad2d = CircularPad2d,
}
