--- batchnorm: layers that standardise each channel, over a batch or over each item, and can keep running statistics.
local optlua = require "optlua"
local blame = require "optlua.blame"
local module = require "optlua.nn.module"
local signature = require "optlua.signature"
local shape_text = require("optlua.shape").text

--- What batch norms have in common (Ioffe & Szegedy, 2015): each channel of the input, dimension 2, is
--- standardised over all others, then scaled and shifted. Training uses the statistics of the batch and
--- moves the running ones towards them; evaluation uses the running ones, if they are tracked. A channel
--- whose batch is not finite leaves its running statistics alone. Parameters weight (C), bias (C);
--- buffers running_mean (C), running_var (C), num_batches_tracked ().
---@class nn.BatchNorm: nn.Module
---@field weight optlua.Tensor|nil
---@field bias optlua.Tensor|nil
---@field running_mean optlua.Tensor|nil
---@field running_var optlua.Tensor|nil
---@field num_batches_tracked optlua.Tensor|nil
local BatchNorm = module.class "BatchNorm"
BatchNorm.role = "norm"
BatchNorm.averages_batches = true -- without a momentum

local momentum_doc = "the share of each batch; false: running statistics are the average of all batches"

--- The arguments of a class; affine and track are their defaults.
local function arguments(name, affine, track)
  return signature.new("nn." .. name, {
    { "num_features", module.size }, { "eps", { default = 1e-5, min = 0 } },
    { "momentum", { default = 0.1, type = "number|boolean", doc = momentum_doc } },
    { "affine", affine }, { "track_running_stats", track }, { "dtype", "float32" }, { "bias", true },
  })
end

function BatchNorm:init(...)
  local name = "nn." .. self:type()
  local num_features, eps, momentum, affine, track, dtype, bias = self.signature:values(...)
  self.num_features = num_features
  if momentum == true then blame(name .. ": momentum: expected a number, or false for the average of all batches") end
  local function filled(fill) return fill({ self.num_features }, { dtype = dtype }) end
  self.eps = eps
  self.momentum = momentum
  self.track_running_stats = track
  if affine then self.weight = module.Parameter(filled(optlua.ones)) end
  if affine and bias then self.bias = module.Parameter(filled(optlua.zeros)) end
  if not track then return end
  self:register_buffer("running_mean", filled(optlua.zeros))
  self:register_buffer("running_var", filled(optlua.ones))
  self:register_buffer("num_batches_tracked", optlua.tensor(0, { dtype = "int64" }))
end

--- Sets running statistics to mean 0 and variance 1, of no batch.
function BatchNorm:reset_running_stats()
  if not self.running_mean then return end
  self.running_mean:zero_()
  self.running_var:fill_(1)
  self.num_batches_tracked:zero_()
end

--- Raises unless the input has one of the numbers of dimensions that the class takes.
local function check_dims(self, x)
  local dims = self.dims
  if dims and x.ndim ~= dims[1] and x.ndim ~= dims[2] then
    blame(("nn.%s: an input of %s dimensions is expected, got shape %s"):format(self:type(),
      table.concat(dims, " or "), shape_text(x)))
  end
end

--- The share of the next batch in the running statistics.
local function share(self)
  if self.momentum or not self.num_batches_tracked then return self.momentum or 0 end
  return 1 / (self.num_batches_tracked:item() + 1)
end

function BatchNorm:forward(x)
  check_dims(self, x)
  local mean, var = self.running_mean, self.running_var
  if not (self.training and mean) then
    return optlua.batch_norm(x, mean, var, self.weight, self.bias, self.training or mean == nil, 0, self.eps)
  end
  local count = self.num_batches_tracked
  local next_count = count and count + 1 -- made before anything changes
  local y = optlua.batch_norm(x, mean, var, self.weight, self.bias, true, share(self), self.eps)
  if count then count:copy_(next_count) end
  return y
end

function BatchNorm:extra_repr()
  return ("%d, eps=%.14g, momentum=%s, affine=%s, bias=%s, track_running_stats=%s"):format(self.num_features, self.eps,
    self.momentum and ("%.14g"):format(self.momentum), self.weight ~= nil, self.bias ~= nil, self.track_running_stats)
end

--- BatchNorm of (N, C) or (N, C, L).
---@class nn.BatchNorm1d: nn.BatchNorm
local BatchNorm1d = module.class("BatchNorm1d", BatchNorm)
BatchNorm1d.signature = arguments("BatchNorm1d", true, true)
BatchNorm1d.dims = { 2, 3 }
BatchNorm1d.samples = [[
  { { 3 }, t(4, 3) },
  { { 3 }, t(2, 3, 4) },
  { { 3, 0.1, 0.3 }, t(2, 3, 4) },
  { { 3, { momentum = false, bias = false } }, t(4, 3) },
  { { 3, { affine = false } }, t(2, 4, 3):transpose(2, 3) },
  { { 3, { track_running_stats = false } }, t(4, 3), eval = true },
  { { 3 }, t(1, 3), eval = true },
  { { 3 }, t(2, 3, 4), eval = true },
  { { 3 }, t(0, 3) },
]]

--- BatchNorm of (N, C, H, W).
---@class nn.BatchNorm2d: nn.BatchNorm
local BatchNorm2d = module.class("BatchNorm2d", BatchNorm)
BatchNorm2d.signature = arguments("BatchNorm2d", true, true)
BatchNorm2d.dims = { 4 }
BatchNorm2d.samples = [[
  { { 3 }, t(2, 3, 2, 3) },
  { { 2, 0.1, 0.3 }, t(3, 2, 5, 4) },
  { { 3, { affine = false, momentum = false } }, t(2, 3, 2, 2) },
  { { 3 }, t(2, 2, 3, 3):transpose(2, 4) },
  { { 3 }, t(2, 3, 2, 2), eval = true },
  { { 2, { track_running_stats = false } }, t(1, 2, 4, 5), eval = true },
  { { 3 }, t(0, 3, 2, 2) },
]]

--- Standardises each channel of each item (Ulyanov et al., 2016); otherwise as BatchNorm, with affine and
--- track_running_stats false unless they are asked for. An input without the batch dimension is one item.
---@class nn.InstanceNorm: nn.BatchNorm
local InstanceNorm = module.class("InstanceNorm", BatchNorm)
InstanceNorm.averages_batches = false

function InstanceNorm:forward(x)
  check_dims(self, x)
  if x.ndim < self.dims[#self.dims] then return self:forward(x:unsqueeze(1)):squeeze(1) end
  return optlua.instance_norm(x, self.running_mean, self.running_var, self.weight, self.bias,
    self.training or self.running_mean == nil, self.momentum or 0, self.eps)
end

--- InstanceNorm of (N, C, L) or (C, L).
---@class nn.InstanceNorm1d: nn.InstanceNorm
local InstanceNorm1d = module.class("InstanceNorm1d", InstanceNorm)
InstanceNorm1d.signature = arguments("InstanceNorm1d", false, false)
InstanceNorm1d.dims = { 2, 3 }
InstanceNorm1d.samples = [[
  { { 3 }, t(2, 3, 4) },
  { { 3, { affine = true } }, t(3, 4) },
  { { 3, 0.1, 0.3, true, true }, t(2, 3, 4) },
  { { 3, { affine = true, track_running_stats = true } }, t(2, 4, 3):transpose(2, 3), eval = true },
  { { 3, { affine = true } }, t(0, 3, 4), without = "PyTorch refuses an input of no items" },
]]

--- InstanceNorm of (N, C, H, W) or (C, H, W).
---@class nn.InstanceNorm2d: nn.InstanceNorm
local InstanceNorm2d = module.class("InstanceNorm2d", InstanceNorm)
InstanceNorm2d.signature = arguments("InstanceNorm2d", false, false)
InstanceNorm2d.dims = { 3, 4 }
InstanceNorm2d.samples = [[
  { { 3 }, t(2, 3, 4, 5) },
  { { 3, { affine = true } }, t(3, 4, 2) },
  { { 2, 0.1, 0.3, true, true }, t(3, 2, 2, 3) },
  { { 3, { track_running_stats = true } }, t(2, 2, 3, 3):transpose(2, 4), eval = true },
]]

return {
  BatchNorm1d = BatchNorm1d, BatchNorm2d = BatchNorm2d,
  InstanceNorm1d = InstanceNorm1d, InstanceNorm2d = InstanceNorm2d,
}
