--- convolution: layers that correlate lines and images with windows of weights, and their transposes.
local optlua = require "optlua"
local blame = require "optlua.blame"
local module = require "optlua.nn.module"
local options = require "optlua.options"
local window = require "optlua.nn.window"
local signature = require "optlua.signature"

local modes = { "zeros", "reflect", "replicate", "circular" }

local channels = { required = true, type = "integer", min = 1 }
local of_groups, of_dilation = { "groups", { default = 1, integer = true, min = 1 } }, { "dilation", window.sizes(1, 1) }
local padding_or_word = { type = "integer|list|string", integer = true, min = 0, default = 0 }

--- The constructors' arguments: those that both begin with, then others.
local function arguments(what, padding, ...)
  return signature.new(what, {
    { "in_channels", channels }, { "out_channels", channels }, { "kernel_size", window.wanted(1) },
    { "stride", window.sizes(1, 1) }, { "padding", padding }, ...,
  })
end

--- Fails where a layer cannot be: groups that do not divide, words that are no padding.
local function check(what, args)
  for _, name in ipairs { "in_channels", "out_channels" } do
    if args[name] % args.groups ~= 0 then
      blame(("%s: groups = %d does not divide %s = %d"):format(what, args.groups, name, args[name]))
    end
  end
  local padding = args.padding
  if type(padding) == "string" and padding ~= "same" and padding ~= "valid" then
    blame(('%s: padding: expected integers, "same" or "valid", got "%s"'):format(what, padding))
  end
end

--- Makes weight and bias, uniform in ±1/√(what one result is made of), as PyTorch has them (He et al., 2015,
--- with a = √5).
local function make_parameters(self, shape, args)
  local fan = 1
  for d = 2, #shape do fan = fan * shape[d] end
  local bound = 1 / math.sqrt(fan)
  local function uniform(sizes)
    return module.Parameter(optlua.zeros(sizes, { dtype = args.dtype }):uniform_(-bound, bound))
  end
  self.weight = uniform(shape)
  if args.bias then self.bias = uniform { self.out_channels } end
end

--- Takes over arguments, as lists of one number a dimension where they have some.
local function keep(self, what, args, spatial)
  for _, name in ipairs { "in_channels", "out_channels", "groups", "padding_mode" } do self[name] = args[name] end
  for _, name in ipairs { "kernel_size", "stride", "padding", "dilation", "output_padding" } do
    local value = args[name]
    if value and type(value) ~= "string" then value = window.each(what, name, value, spatial) end
    self[name] = value
  end
end

local function all(list, value)
  for _, item in ipairs(list) do
    if item ~= value then return false end
  end
  return true
end

local function extra_repr(self)
  local words = {
    tostring(self.in_channels), tostring(self.out_channels),
    "kernel_size=" .. window.text(self.kernel_size), "stride=" .. window.text(self.stride),
  }
  local function add(name, differs)
    if differs then words[#words + 1] = ("%s=%s"):format(name, window.text(self[name])) end
  end
  add("padding", type(self.padding) == "string" or not all(self.padding, 0))
  add("dilation", not all(self.dilation, 1))
  add("output_padding", self.output_padding and not all(self.output_padding, 0))
  add("groups", self.groups ~= 1)
  if not self.bias then words[#words + 1] = "bias=false" end
  add("padding_mode", self.padding_mode and self.padding_mode ~= "zeros")
  return table.concat(words, ", ")
end

--- How much to pad, last dimension first, where it is not with zeros.
local function pads_of(self)
  local pads = {}
  for d = #self.kernel_size, 1, -1 do
    local before, after = 0, 0
    if self.padding == "same" then
      local total = self.dilation[d] * (self.kernel_size[d] - 1)
      before, after = total // 2, total - total // 2
    elseif self.padding ~= "valid" then
      before, after = self.padding[d], self.padding[d]
    end
    pads[#pads + 1] = before
    pads[#pads + 1] = after
  end
  return pads
end

local function convolution(name, spatial)
  local class, what, operation = module.class(name), "nn." .. name, optlua[("conv%dd"):format(spatial)]

  class.signature = arguments(what, padding_or_word, of_dilation, of_groups, { "bias", true },
    { "padding_mode", { default = "zeros", choices = modes } }, { "dtype", "float32" })

  function class:init(...)
    local args = self.signature:read(...)
    check(what, args)
    keep(self, what, args, spatial)
    if self.padding == "same" and not all(self.stride, 1) then
      blame(('%s: padding "same" wants a stride of 1, got %s'):format(what, window.text(self.stride)))
    end
    make_parameters(self, { args.out_channels, args.in_channels // args.groups, table.unpack(self.kernel_size) }, args)
  end

  function class:forward(x)
    local padding = self.padding
    if self.padding_mode ~= "zeros" then
      x, padding = optlua.pad(x, pads_of(self), self.padding_mode), 0
    end
    return operation(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)
  end

  class.extra_repr = extra_repr
  return class
end

--- The output_padding that gives a result of these sizes.
local function padding_for(self, x, sizes)
  local spatial = #self.kernel_size
  sizes = options.argument("nn." .. self:type(), "output_size", sizes,
    { required = true, type = "integer|list", integer = true, min = 1 })
  if type(sizes) == "table" and #sizes > spatial then sizes = { table.unpack(sizes, #sizes - spatial + 1) } end
  local result, wanted = {}, window.each(self:type(), "output_size", sizes, spatial)
  for d = 1, spatial do
    local stride, dilation = self.stride[d], self.dilation[d]
    local least = (x.shape[#x.shape - spatial + d] - 1) * stride - 2 * self.padding[d]
      + dilation * (self.kernel_size[d] - 1) + 1
    local most = least + math.max(stride, dilation) - 1
    result[d] = wanted[d] - least
    if wanted[d] < least or wanted[d] > most then
      blame(("%s: output_size: expected %d to %d in dimension %d, got %d")
        :format(self:type(), least, most, #x.shape - spatial + d, wanted[d]))
    end
  end
  return result
end

local function transposed(name, spatial)
  local class, what, operation = module.class(name), "nn." .. name, optlua[("conv_transpose%dd"):format(spatial)]

  class.signature = arguments(what, window.sizes(0, 0), { "output_padding", window.sizes(0, 0) }, of_groups,
    { "bias", true }, of_dilation, { "dtype", "float32" })

  function class:init(...)
    local args = self.signature:read(...)
    check(what, args)
    keep(self, what, args, spatial)
    make_parameters(self, { args.in_channels, args.out_channels // args.groups, table.unpack(self.kernel_size) }, args)
  end

  --- output_size: the wanted sizes of lines; default: what output_padding says.
  function class:forward(x, output_size)
    local extra = output_size and padding_for(self, x, output_size) or self.output_padding
    return operation(x, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)
  end

  class.extra_repr = extra_repr
  return class
end

--- Correlation of lines with weights: (N, C, L) or (C, L) -> (N, out, L') or (out, L'). Parameters weight
--- (out, in / groups, kernel) and bias (out), uniform in ±1/√(in / groups · kernel) at first. Arguments:
--- in_channels, out_channels, kernel_size, stride = 1, padding = 0 (or "same", "valid"), dilation = 1,
--- groups = 1, bias = true, padding_mode = "zeros" ("reflect", "replicate", "circular"); any of those after
--- kernel_size in a last table too, beside dtype.
---@class nn.Conv1d: nn.Module
---@field weight optlua.Tensor
---@field bias optlua.Tensor|nil
local Conv1d = convolution("Conv1d", 1)

Conv1d.samples = [[
  { { 3, 4, 3 }, t(2, 3, 8) },
  { { 2, 4, 3, 2, 1, 2, 2, false }, t(2, 9) },
  { { 2, 3, { 4 }, { padding = "same" } }, t(2, 2, 7) },
  { { 3, 4, 3, { stride = 2 } }, t(9, 3, 2):transpose(1, 3) },
  { { 2, 3, 3, { padding = 2, padding_mode = "replicate" } }, t(2, 2, 4) },
  { { 3, 4, 3 }, t(0, 3, 8) },
]]

--- Correlation of images with weights: (N, C, H, W) or (C, H, W) -> (N, out, H', W') or (out, H', W').
--- Parameters weight (out, in / groups, rows, columns) and bias (out), uniform in ±1/√(in / groups · rows ·
--- columns) at first. Arguments as of Conv1d; sizes are an integer or { rows, columns }.
---@class nn.Conv2d: nn.Module
---@field weight optlua.Tensor
---@field bias optlua.Tensor|nil
local Conv2d = convolution("Conv2d", 2)

Conv2d.samples = [[
  { { 3, 4, 3 }, t(2, 3, 5, 6) },
  { { 2, 4, { 3, 2 }, { stride = { 2, 1 }, padding = { 1, 0 }, dilation = { 1, 2 } } }, t(2, 2, 7, 6) },
  { { 4, 6, 3, 1, 1, 1, 2, false }, t(4, 5, 5) },
  { { 3, 3, 3, { padding = "same", groups = 3 } }, t(2, 3, 4, 5) },
  { { 3, 2, 1 }, t(5, 3, 4, 2):transpose(1, 4) },
  { { 2, 3, 3, { padding = { 2, 1 }, padding_mode = "reflect" } }, t(2, 2, 4, 5) },
  { { 2, 3, { 3, 2 }, { padding = "same", padding_mode = "circular" } }, t(2, 4, 5) },
  { { 3, 4, 3, { padding = 1 } }, t(0, 3, 5, 6) },
]]

--- The transpose of Conv1d, which maps results of its shape back to lines: (N, C, L) or (C, L) -> (N, out, L')
--- or (out, L'). Parameters weight (in, out / groups, kernel) and bias (out). Arguments: in_channels,
--- out_channels, kernel_size, stride = 1, padding = 0, output_padding = 0, groups = 1, bias = true, dilation = 1.
---@class nn.ConvTranspose1d: nn.Module
---@field weight optlua.Tensor
---@field bias optlua.Tensor|nil
local ConvTranspose1d = transposed("ConvTranspose1d", 1)

ConvTranspose1d.samples = [[
  { { 3, 4, 3 }, t(2, 3, 5) },
  { { 4, 2, 3, 2, 1, 1, 2, false }, t(4, 5) },
  { { 2, 3, 3, { stride = 2, dilation = 2 } }, t(5, 2, 2):transpose(1, 3), 14 },
  { { 3, 4, 3 }, t(0, 3, 5) },
]]

--- The transpose of Conv2d, which maps results of its shape back to images (Zeiler et al., 2010): (N, C, H, W)
--- or (C, H, W) -> (N, out, H', W') or (out, H', W'). Parameters weight (in, out / groups, rows, columns) and
--- bias (out). Arguments as of ConvTranspose1d.
---@class nn.ConvTranspose2d: nn.Module
---@field weight optlua.Tensor
---@field bias optlua.Tensor|nil
local ConvTranspose2d = transposed("ConvTranspose2d", 2)

ConvTranspose2d.samples = [[
  { { 3, 4, 3 }, t(2, 3, 4, 5) },
  { { 4, 2, { 3, 2 }, { 2, 1 }, { 1, 0 }, { 1, 0 }, 2, false }, t(4, 3, 5) },
  { { 3, 2, 3, { stride = 2, padding = 1 } }, t(2, 3, 4, 3), { 8, 6 } },
  { { 3, 2, 2, { stride = 2 } }, t(5, 3, 4, 2):transpose(1, 4) },
  { { 3, 4, 3 }, t(0, 3, 4, 5) },
]]

return { Conv1d = Conv1d, Conv2d = Conv2d, ConvTranspose1d = ConvTranspose1d, ConvTranspose2d = ConvTranspose2d }
