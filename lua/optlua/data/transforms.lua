--- transforms: what is done to images on their way out of a dataset; images are tensors (…, H, W).
--
-- A transform is called with an image and a function of random numbers, called like math.random, which
-- data.transformed gives: an image's changes depend on seed, epoch and item alone. Without that function the
-- numbers come from the generator of optlua.manual_seed.
local optlua = require "optlua"
local blame = require "optlua.blame"
local options = require "optlua.options"

--- Random numbers of the generator, as math.random has them.
local function from_generator(low, high)
  local value = optlua.rand(1, { dtype = "float64" }):item()
  if not low then return value end
  if not high then low, high = 1, low end
  return low + math.floor(value * (high - low + 1))
end

local metatable = {
  __call = function(self, image, random)
    if not optlua.is_tensor(image) or image.ndim < 2 then
      blame(("%s: an image expected, a tensor (…, H, W)"):format(self.name))
    end
    return self.apply(image, random or from_generator)
  end,
  __tostring = function(self) return self.text end,
}

--- Makes a transform of a function (image, random).
local function new(name, arguments, apply)
  return setmetatable({ name = "transforms." .. name, text = ("%s(%s)"):format(name, arguments), apply = apply }, metatable)
end

--- Height and width: two numbers, or one for both.
local function check_size(name, size)
  local what = "transforms." .. name
  size = options.argument(what, "size", size, { required = true, type = "integer|list", min = 1, integer = true })
  if type(size) == "number" then return size, size end
  if #size ~= 2 then blame(("%s: size: height and width expected, got %d numbers"):format(what, #size)) end
  return size[1], size[2]
end

local function size_of(image) return image.shape[image.ndim - 1], image.shape[image.ndim] end

local function cut(name, image, top, left, height, width)
  local h, w = size_of(image)
  if height > h or width > w then
    blame(("transforms.%s: an image of %d x %d is smaller than %d x %d"):format(name, h, w, height, width))
  end
  return image:narrow(-2, top + 1, height):narrow(-1, left + 1, width)
end

local transforms = {}

--- Several transforms, one after the other.
---@param list function[] transforms, or functions (image, random)
---@return function
function transforms.Compose(list)
  options.argument("transforms.Compose", "list", list, { required = true, type = "list" })
  local texts = {}
  for k, transform in ipairs(list) do
    options.argument("transforms.Compose", ("transform %d"):format(k), transform, { required = true, type = "callable" })
    texts[k] = tostring(transform)
  end
  return new("Compose", table.concat(texts, ", "), function(image, random)
    for _, transform in ipairs(list) do image = transform(image, random) end
    return image
  end)
end

--- Bytes as float32 in 0 … 1; other numbers as float32.
---@return function
function transforms.ToFloat()
  return new("ToFloat", "", function(image)
    return image.dtype == "uint8" and image:to "float32" / 255 or image:to "float32"
  end)
end

local function check_channels(name, values, above)
  options.argument("transforms.Normalize", name, values, { required = true, type = "list", above = above })
  return optlua.tensor(values, { dtype = "float64" }):reshape(-1, 1, 1)
end

--- Subtracts a mean from each channel and divides by a standard deviation.
---@param mean number|number[] one for each channel, or one for all
---@param std number|number[]
---@return function
function transforms.Normalize(mean, std)
  if type(mean) == "number" then mean = { mean } end
  if type(std) == "number" then std = { std } end
  local shift, scale = check_channels("mean", mean), check_channels("std", std, 0)
  local text = ("{%s}, {%s}"):format(table.concat(mean, ", "), table.concat(std, ", "))
  return new("Normalize", text, function(image)
    if not image:is_floating_point() then
      blame(("transforms.Normalize: an image of floats expected, got %s; transforms.ToFloat makes one"):format(image.dtype))
    end
    if image.ndim < 3 then blame "transforms.Normalize: an image (…, C, H, W) expected" end
    local channels = image.shape[image.ndim - 2]
    for _, values in ipairs { mean, std } do
      if #values ~= 1 and #values ~= channels then
        blame(("transforms.Normalize: %d values for %d channels"):format(#values, channels))
      end
    end
    return (image - shift:to(image.dtype)) / scale:to(image.dtype)
  end)
end

--- The middle of an image.
---@param size integer|integer[] height and width, or one number for both
---@return function
function transforms.CenterCrop(size)
  local height, width = check_size("CenterCrop", size)
  return new("CenterCrop", ("{%d, %d}"):format(height, width), function(image)
    local h, w = size_of(image)
    return cut("CenterCrop", image, math.max(h - height, 0) // 2, math.max(w - width, 0) // 2, height, width)
  end)
end

--- A part of an image, at random.
---@param size integer|integer[] height and width, or one number for both
---@param opts? { padding?: integer } zeros around the image before; 0
---@return function
function transforms.RandomCrop(size, opts)
  local height, width = check_size("RandomCrop", size)
  opts = options.check("transforms.RandomCrop", opts, { padding = { default = 0, min = 0, integer = true } })
  local text = ("{%d, %d}, padding=%d"):format(height, width, opts.padding)
  local margins = { opts.padding, opts.padding, opts.padding, opts.padding }
  return new("RandomCrop", text, function(image, random)
    if opts.padding > 0 then image = optlua.pad(image, margins) end
    local h, w = size_of(image)
    local top = random(0, math.max(h - height, 0))
    return cut("RandomCrop", image, top, random(0, math.max(w - width, 0)), height, width)
  end)
end

--- Left and right changed about, with probability p.
---@param p? number 0.5
---@return function
function transforms.RandomHorizontalFlip(p)
  p = p or 0.5
  options.argument("transforms.RandomHorizontalFlip", "p", p, { required = true, type = "number", min = 0, max = 1 })
  return new("RandomHorizontalFlip", ("p=%s"):format(p), function(image, random)
    return random() < p and image:flip(-1) or image
  end)
end

--- An image (…, H, W) of another size, of floats.
local function interpolate(image, height, width)
  local h, w = size_of(image)
  local shape = image.shape
  shape[#shape - 1], shape[#shape] = height, width
  local flat = image:reshape(1, image:numel() // (h * w), h, w)
  return optlua.interpolate(flat, { height, width }, { mode = "bilinear" }):reshape(shape)
end

--- Another size, by bilinear interpolation as in PyTorch with align_corners=False and without antialiasing: to make an
--- image several times smaller, crop or average first. Bytes stay bytes, rounded.
---@param size integer|integer[] height and width; one number is the shorter side, the other follows
---@return function
function transforms.Resize(size)
  local height, width = check_size("Resize", size)
  local shorter = type(size) == "number"
  local text = shorter and tostring(height) or ("{%d, %d}"):format(height, width)
  return new("Resize", text, function(image)
    local h, w = size_of(image)
    if h == 0 or w == 0 then blame "transforms.Resize: an image of at least one pixel expected" end
    local new_h, new_w = height, width
    if shorter and h <= w then new_w = height * w // h end
    if shorter and w < h then new_h = height * h // w end
    local bytes = image.dtype == "uint8"
    local result = interpolate(bytes and image:to "float32" or image, new_h, new_w)
    return bytes and result:round():to "uint8" or result
  end)
end

return options.strict("data.transforms", transforms)
