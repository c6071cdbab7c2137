--- mnist: MNIST and what is kept in the same four files, Fashion-MNIST.
local host = require("optlua.core").hidden
local blame = require "optlua.blame"
local files = require "optlua.files"
local options = require "optlua.options"
local dataset = require "optlua.data.dataset"
local shape_text = require("optlua.shape").text

--- Reads an IDX file, gzipped or plain, into a tensor: unsigned bytes as uint8, other integers as int64,
--- float32 and float64 as they are. A file that is malformed, too short or too long raises.
---@param path string
---@return optlua.Tensor
local function idx(path) return host.idx_read(path) end

--- Where a file lies: in root or where torchvision puts it, gzipped or plain.
local function find(what, root, folder, name)
  local tried = {}
  for _, place in ipairs { root, ("%s/%s/raw"):format(root, folder) } do
    for _, ending in ipairs { "", ".gz" } do
      local path = ("%s/%s%s"):format(place, name, ending)
      if files.exists(path) then return path end
      tried[#tried + 1] = path
    end
  end
  return nil, ("data.%s: no file %s"):format(what, table.concat(tried, ", "))
end

local function check_files(what, images, labels, classes)
  if images.ndim ~= 3 or images.dtype ~= "uint8" then
    blame(("data.%s: images: uint8 (N, height, width) expected, got %s of shape %s")
      :format(what, images.dtype, shape_text(images)))
  end
  if labels.ndim ~= 1 or labels.dtype ~= "uint8" or #labels ~= #images then
    blame(("data.%s: labels: uint8 (%d) expected, got %s of shape %s")
      :format(what, #images, labels.dtype, shape_text(labels)))
  end
  if #labels > 0 and labels:max():item() >= #classes then
    blame(("data.%s: labels: 0 to %d expected, got %d"):format(what, #classes - 1, labels:max():item()))
  end
end

--- A dataset of images that are kept as bytes.
local function images_dataset(images, labels, classes)
  local function convert(pixels) return pixels:to "float32" / 255 end
  local set = dataset.new(#images, function(i)
    return convert(images:narrow(1, i, 1)), labels[i]
  end, function(positions)
    return convert(images:index_select(1, positions):unsqueeze(2)), labels:index_select(1, positions)
  end)
  set.data, set.targets, set.classes = images, labels, classes
  return set
end

--- Reads one part; raises with the hint when there are no files.
local function read(source, root, part)
  local images, problem = find(source.name, root, source.folder, part .. "-images-idx3-ubyte")
  local labels
  if images then labels, problem = find(source.name, root, source.folder, part .. "-labels-idx1-ubyte") end
  if problem then blame(problem .. "; " .. source.hint) end
  local pixels, targets = idx(images), idx(labels)
  check_files(source.name, pixels, targets, source.classes)
  return images_dataset(pixels, targets:to "int64", source.classes)
end

local function open(source, opts)
  opts = options.check("data." .. source.name, opts, {
    root = source.root and { default = source.root } or { required = false, type = "string" },
    train = { required = false, type = "boolean" },
    transform = { required = false, type = "callable" },
    seed = { required = false, type = "integer" },
  })
  if not opts.root then blame(("data.%s: root: is required: %s"):format(source.name, source.hint)) end
  local function part(name)
    local set = read(source, opts.root, name)
    return opts.transform and dataset.transformed(set, opts.transform, { seed = opts.seed }) or set
  end
  if opts.train ~= nil then return part(opts.train and "train" or "t10k") end
  return part "train", part "t10k"
end

local function words(text)
  local list = {}
  for word in text:gmatch "[^,]+" do list[#list + 1] = word end
  return list
end

local mnist_source = {
  name = "mnist", folder = "MNIST",
  hint = "give the folder of train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
    .. "t10k-labels-idx1-ubyte, gzipped or not, as root",
  classes = words "0,1,2,3,4,5,6,7,8,9",
}

local fashion_source = {
  name = "fashion_mnist", folder = "FashionMNIST", root = "/usr/share/datasets/fashion-mnist",
  hint = "Debian's package has the files: apt-get install dataset-fashion-mnist; or give their folder as root",
  classes = words "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot",
}

--- MNIST (LeCun, Cortes and Burges): 60,000 images of handwritten digits for training and 10,000 for testing.
--- An item is an image, float32 (1, 28, 28) in 0 … 1, and a label, int64 0 … 9. The datasets have fields
--- `data` (uint8 (N, 28, 28)), `targets` (int64 (N)) and `classes` (the names).
---@param opts { root: string, train?: boolean, transform?: function, seed?: integer } root: the folder of the
---  four files, gzipped or not; train: true or false for one part only; transform: of images, see data.transformed
---@return data.Dataset train
---@return data.Dataset? test
local function mnist(opts) return open(mnist_source, opts) end

--- Fashion-MNIST (Xiao, Rasul and Vollgraf, 2017): 60,000 images of clothes for training and 10,000 for testing,
--- in the same form as data.mnist.
---@param opts? { root?: string, train?: boolean, transform?: function, seed?: integer } root: default where
---  Debian's package dataset-fashion-mnist has the files; train: true or false for one part only; transform: of
---  images, see data.transformed
---@return data.Dataset train
---@return data.Dataset? test
local function fashion_mnist(opts) return open(fashion_source, opts) end

return { idx = idx, mnist = mnist, fashion_mnist = fashion_mnist }
