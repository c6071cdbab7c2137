--- pooling: layers that make one number of each window of a line or image.
local optlua = require "optlua"
local blame = require "optlua.blame"
local module = require "optlua.nn.module"
local window = require "optlua.nn.window"
local signature = require "optlua.signature"

--- Lists as they were given, one number stays one; those for other dimensions raise.
local function keep(self, what, args, spatial, names)
  for _, name in ipairs(names) do
    local value = args[name]
    if type(value) == "table" then value = window.each(what, name, value, spatial) end
    self[name] = value
  end
end

--- "kernel_size=2, stride=2, …" of some fields.
local function fields(self, names)
  local words = {}
  for k, name in ipairs(names) do words[k] = ("%s=%s"):format(name, window.text(self[name])) end
  return table.concat(words, ", ")
end

--- Argument kernel_size and those of stride and padding, which all pools begin with.
local function sliding(...)
  return {
    { "kernel_size", window.wanted(1) }, { "stride", window.sizes(1) }, { "padding", window.sizes(0, 0) }, ...,
  }
end

local max_order = { "kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode" }

local function max_pool(name, spatial)
  local class, what, operation = module.class(name), "nn." .. name, optlua[("max_pool%dd"):format(spatial)]

  class.signature = signature.new(what,
    sliding({ "dilation", window.sizes(1, 1) }, { "return_indices", false }, { "ceil_mode", false }))

  function class:init(...)
    local args = self.signature:read(...)
    args.stride = args.stride or args.kernel_size
    keep(self, what, args, spatial, max_order)
  end

  function class:forward(x)
    return operation(x, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices)
  end

  function class:extra_repr() return fields(self, { "kernel_size", "stride", "padding", "dilation", "ceil_mode" }) end

  return class
end

local avg_order = { "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override" }

local function avg_pool(name, spatial)
  local class, what, operation = module.class(name), "nn." .. name, optlua[("avg_pool%dd"):format(spatial)]
  local order = { table.unpack(avg_order, 1, 4 + spatial) }

  class.signature = signature.new(what, sliding({ "ceil_mode", false }, { "count_include_pad", true },
    spatial == 2 and { "divisor_override", { required = false, type = "integer" } } or nil))

  function class:init(...)
    local args = self.signature:read(...)
    if args.divisor_override == 0 then blame(what .. ": divisor_override: expected another integer than 0") end
    args.stride = args.stride or args.kernel_size
    keep(self, what, args, spatial, order)
    if spatial == 1 then -- as PyTorch has them
      for k = 1, 3 do self[order[k]] = window.each(what, order[k], self[order[k]], 1) end
    end
  end

  function class:forward(x)
    return operation(x, table.unpack({
      self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, self.divisor_override,
    }, 1, #order))
  end

  function class:extra_repr() return fields(self, { "kernel_size", "stride", "padding" }) end

  return class
end

local function adaptive(name, operation, spatial, order)
  local class, what = module.class(name), "nn." .. name

  class.signature = signature.new(what,
    { { "output_size", window.wanted(1) }, order[2] and { "return_indices", false } or nil })

  function class:init(...) keep(self, what, self.signature:read(...), spatial, order) end

  function class:forward(x)
    if not order[2] then return operation(x, self.output_size) end
    return operation(x, self.output_size, self.return_indices)
  end

  function class:extra_repr() return fields(self, { "output_size" }) end

  return class
end

local function adaptive_max(name, spatial)
  return adaptive(name, optlua[("adaptive_max_pool%dd"):format(spatial)], spatial, { "output_size", "return_indices" })
end

local function adaptive_avg(name, spatial)
  return adaptive(name, optlua[("adaptive_avg_pool%dd"):format(spatial)], spatial, { "output_size" })
end

--- The largest element of each window: (N, C, L) or (C, L) -> (N, C, L') or (C, L'). Arguments: kernel_size,
--- stride = kernel_size, padding = 0, dilation = 1, return_indices = false, ceil_mode = false.
---@class nn.MaxPool1d: nn.Module
local MaxPool1d = max_pool("MaxPool1d", 1)

MaxPool1d.samples = [[
  { { 2 }, t(2, 3, 8) },
  { { 3, 2, 1, 2, false, true }, t(3, 10) },
  { { 2, { return_indices = true } }, t(7, 3, 2):transpose(1, 3) },
  { { 2 }, t(0, 3, 8) },
]]

--- The largest element of each window: (N, C, H, W) or (C, H, W) -> (N, C, H', W') or (C, H', W'). Arguments as
--- of MaxPool1d; sizes are an integer or { rows, columns }.
---@class nn.MaxPool2d: nn.Module
local MaxPool2d = max_pool("MaxPool2d", 2)

MaxPool2d.samples = [[
  { { 2 }, t(2, 3, 6, 8) },
  { { { 3, 2 }, { 2, 1 }, { 1, 0 } }, t(3, 7, 6) },
  { { 3, { stride = 2, padding = 1, dilation = 2, ceil_mode = true, return_indices = true } }, t(2, 2, 7, 8) },
  { { 2, 2 }, t(6, 4, 3, 2):transpose(1, 4) },
  { { 2 }, t(0, 3, 6, 8) },
]]

--- The mean of each window: (N, C, L) or (C, L) -> (N, C, L') or (C, L'). Arguments: kernel_size,
--- stride = kernel_size, padding = 0, ceil_mode = false, count_include_pad = true.
---@class nn.AvgPool1d: nn.Module
local AvgPool1d = avg_pool("AvgPool1d", 1)

AvgPool1d.samples = [[
  { { 2 }, t(2, 3, 8) },
  { { 3, 2, 1, true, false }, t(3, 10) },
  { { 2, { stride = 1 } }, t(7, 3, 2):transpose(1, 3) },
  { { 2 }, t(0, 3, 8) },
]]

--- The mean of each window: (N, C, H, W) or (C, H, W) -> (N, C, H', W') or (C, H', W'). Arguments as of
--- AvgPool1d, then divisor_override = nil; sizes are an integer or { rows, columns }.
---@class nn.AvgPool2d: nn.Module
local AvgPool2d = avg_pool("AvgPool2d", 2)

AvgPool2d.samples = [[
  { { 2 }, t(2, 3, 6, 8) },
  { { { 3, 2 }, { 2, 1 }, { 1, 0 } }, t(3, 7, 6) },
  { { 3, { stride = 2, padding = 1, ceil_mode = true, count_include_pad = false } }, t(2, 2, 6, 8) },
  { { 2, { divisor_override = 3 } }, t(6, 4, 3, 2):transpose(1, 4) },
  { { 2 }, t(0, 3, 6, 8) },
]]

--- The largest elements of windows that cut lines into output_size parts: (N, C, L) -> (N, C, output_size).
--- Arguments: output_size, return_indices = false.
---@class nn.AdaptiveMaxPool1d: nn.Module
local AdaptiveMaxPool1d = adaptive_max("AdaptiveMaxPool1d", 1)

AdaptiveMaxPool1d.samples = [[
  { { 3 }, t(2, 3, 8) },
  { { 5, { return_indices = true } }, t(7, 3, 2):transpose(1, 3) },
  { { 2 }, t(3, 5) },
  { { 2 }, t(0, 3, 8) },
]]

--- The largest elements of windows that cut images into output_size parts: an integer, or { rows, columns }.
--- Arguments as of AdaptiveMaxPool1d.
---@class nn.AdaptiveMaxPool2d: nn.Module
local AdaptiveMaxPool2d = adaptive_max("AdaptiveMaxPool2d", 2)

AdaptiveMaxPool2d.samples = [[
  { { { 3, 2 } }, t(2, 3, 7, 8) },
  { { 2, { return_indices = true } }, t(6, 4, 3, 2):transpose(1, 4) },
  { { 1 }, t(3, 5, 4) },
  { { 2 }, t(0, 3, 6, 8) },
]]

--- The means of windows that cut lines into output_size parts: (N, C, L) -> (N, C, output_size).
---@class nn.AdaptiveAvgPool1d: nn.Module
local AdaptiveAvgPool1d = adaptive_avg("AdaptiveAvgPool1d", 1)

AdaptiveAvgPool1d.samples = [[
  { { 3 }, t(2, 3, 8) },
  { { 5 }, t(7, 3, 2):transpose(1, 3) },
  { { 2 }, t(3, 5) },
  { { 2 }, t(0, 3, 8) },
]]

--- The means of windows that cut images into output_size parts: an integer, or { rows, columns }. Of
--- output_size 1 it is the mean of each channel (Lin, Chen & Yan, 2013).
---@class nn.AdaptiveAvgPool2d: nn.Module
local AdaptiveAvgPool2d = adaptive_avg("AdaptiveAvgPool2d", 2)

AdaptiveAvgPool2d.samples = [[
  { { { 3, 2 } }, t(2, 3, 7, 8) },
  { { 2 }, t(6, 4, 3, 2):transpose(1, 4) },
  { { 1 }, t(3, 5, 4) },
  { { 2 }, t(0, 3, 6, 8) },
]]

return {
  MaxPool1d = MaxPool1d, MaxPool2d = MaxPool2d, AvgPool1d = AvgPool1d, AvgPool2d = AvgPool2d,
  AdaptiveMaxPool1d = AdaptiveMaxPool1d, AdaptiveMaxPool2d = AdaptiveMaxPool2d,
  AdaptiveAvgPool1d = AdaptiveAvgPool1d, AdaptiveAvgPool2d = AdaptiveAvgPool2d,
}
