--- image: pictures in files, one by one or as a dataset.
local host = require("optlua.core").hidden
local blame = require "optlua.blame"
local options = require "optlua.options"
local dataset = require "optlua.data.dataset"

local MAX_PIXELS = 100 * 1000 * 1000 -- 300 MB of RGB
local MAX_DEPTH = 32                 -- of folders, so that links in a circle end

local modes = { required = false, choices = { "unchanged", "rgb", "gray" } }
local max_pixels = { default = MAX_PIXELS, min = 1, integer = true }

--- Reads a PNG or JPEG file, told apart by what is in it, into a tensor uint8 (C, H, W). Palettes become colours, a
--- transparent colour becomes alpha, 16 bits are scaled to 8; neither gamma nor EXIF's orientation is applied. A file
--- that is corrupt or cut short raises.
---@param path string
---@param opts? { convert?: "unchanged"|"rgb"|"gray", max_pixels?: integer } convert: "unchanged" gives grey (1), grey and
---  alpha (2), RGB (3) or RGB and alpha (4) as the file has it; max_pixels: more are refused, 100 million
---@return optlua.Tensor
local function read_image(path, opts)
  options.argument("data.read_image", "path", path, { required = true, type = "string" })
  opts = options.check("data.read_image", opts, { convert = modes, max_pixels = max_pixels })
  return host.image_read(path, opts.convert or "unchanged", opts.max_pixels)
end

--- Writes an image, uint8 (H, W) or (C, H, W) of 1 to 4 channels, as a PNG file, whole or not at all.
---@param path string
---@param image optlua.Tensor
local function write_png(path, image)
  options.argument("data.write_png", "path", path, { required = true, type = "string" })
  host.png_write(path, image)
end

--- Visible names in a folder.
local function entries_of(folder)
  local list = {}
  for _, entry in ipairs(host.folder_list(folder)) do
    if entry.name:sub(1, 1) ~= "." then list[#list + 1] = entry end
  end
  return list
end

--- Adds the images in a folder and those below it, in the order of their names.
local function collect(folder, endings, samples, class, depth)
  if depth > MAX_DEPTH then blame(("data.image_folder: %s: folders are nested too deeply"):format(folder)) end
  for _, entry in ipairs(entries_of(folder)) do
    local path = folder .. "/" .. entry.name
    if entry.is_folder then
      collect(path, endings, samples, class, depth + 1)
    elseif entry.is_file and endings[(entry.name:match "%.([^.]*)$" or ""):lower()] then
      samples[#samples + 1] = { path = path, class = class }
    end
  end
end

local function endings_of(list)
  local endings = {}
  for k, ending in ipairs(list) do
    if type(ending) ~= "string" then blame(("data.image_folder: extensions[%d]: a text expected"):format(k)) end
    endings[ending:lower():gsub("^%.", "")] = true
  end
  return endings
end

--- The classes, which are the folders in root, and the images of each.
local function find(root, endings)
  local classes, samples = {}, {}
  for _, entry in ipairs(entries_of(root)) do
    if entry.is_folder then
      classes[#classes + 1] = entry.name
      local before = #samples
      collect(root .. "/" .. entry.name, endings, samples, #classes - 1, 1)
      if #samples == before then blame(("data.image_folder: %s/%s: there is no image in it"):format(root, entry.name)) end
    end
  end
  if #classes == 0 then blame(("data.image_folder: %s: there are no folders in it, one for each class"):format(root)) end
  return classes, samples
end

--- A dataset of images that lie in one folder for each class, at any depth. An item is an image, uint8 (C, H, W), and
--- the number of its class; images are read when they are asked for. The dataset has fields `classes` (the names of
--- the folders, sorted; class k is classes[k + 1]) and `samples` (a list of { path, class }).
---@param root string
---@param opts? { transform?: function, extensions?: string[], convert?: "unchanged"|"rgb"|"gray", max_pixels?: integer, seed?: integer }
---  transform: of images, see data.transformed and data.transforms; seed: of the transform; extensions: "png", "jpg"
---  and "jpeg"; convert: "rgb"; max_pixels: as in data.read_image
---@return data.Dataset
local function image_folder(root, opts)
  options.argument("data.image_folder", "root", root, { required = true, type = "string" })
  opts = options.check("data.image_folder", opts, {
    transform = { required = false, type = "callable" },
    extensions = { required = false, type = "list" },
    convert = modes,
    max_pixels = max_pixels,
    seed = { required = false, type = "integer" },
  })
  local classes, samples = find(root, endings_of(opts.extensions or { "png", "jpg", "jpeg" }))
  local set = dataset.new(#samples, function(i)
    return host.image_read(samples[i].path, opts.convert or "rgb", opts.max_pixels), samples[i].class
  end)
  set.classes, set.samples = classes, samples
  return opts.transform and dataset.transformed(set, opts.transform, { seed = opts.seed }) or set
end

return { read_image = read_image, write_png = write_png, image_folder = image_folder }
