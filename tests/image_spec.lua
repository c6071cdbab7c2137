-- Images: PNG and JPEG files, folders of them, transforms.
local optlua = require "optlua"
local files = require "files"
local data = optlua.data
local transforms = data.transforms

local fails = require("fails").matching

local function golden(name) return "tests/golden/images/" .. name end

local function expected(name) return optlua.npy.load(golden(name .. ".npy")) end

--- Reads bytes as an image.
local function read(bytes, opts)
  local image
  files.with_bytes(bytes, function(path) image = data.read_image(path, opts) end)
  return image
end

local function greatest_difference(a, b)
  assert.same(b.shape, a.shape)
  return (a:to "float32" - b:to "float32"):abs():max():item()
end

local pngs = {
  rgb = 3, grey = 1, rgba = 4, grey_alpha = 2, bits = 1, palette = 3, palette_alpha = 4, grey16 = 1, rgb16 = 3, rgb_mark = 4,
  interlaced = 3,
}
local jpegs = { jpeg = 3, jpeg_420 = 3, jpeg_progressive = 3, jpeg_grey = 1, jpeg_cmyk = 3 }

describe("data.read_image", function()
  it("reads each form of PNG as Pillow does", function()
    for name, channels in pairs(pngs) do
      local image = data.read_image(golden(name .. ".png"))
      assert.same({ { channels, 9, 13 }, "uint8" }, { image.shape, image.dtype }, name)
      assert.equal(0, greatest_difference(image, expected(name)), name)
    end
  end)

  it("reads each form of JPEG as Pillow does", function()
    for name, channels in pairs(jpegs) do
      local image = data.read_image(golden(name .. ".jpg"))
      assert.same({ { channels, 9, 13 }, "uint8" }, { image.shape, image.dtype }, name)
      assert.is_true(greatest_difference(image, expected(name)) <= 1, name)
    end
  end)

  it("converts to RGB or grey", function()
    for _, names in ipairs { pngs, jpegs } do
      for name, channels in pairs(names) do
        local path = golden(name .. (names == pngs and ".png" or ".jpg"))
        local own = data.read_image(path)
        local rgb, gray = data.read_image(path, { convert = "rgb" }), data.read_image(path, { convert = "gray" })
        local colours = channels >= 3 and own:narrow(1, 1, 3) or own:narrow(1, 1, 1):expand(3, 9, 13)
        assert.is_true(rgb:equal(colours:contiguous()), name)
        local c = colours:to "float64"
        local luma = channels >= 3 and (c[1] * 19595 + c[2] * 38470 + c[3] * 7471 + 32768) / 65536 or c[1]
        assert.is_true(gray[1]:equal(luma:floor():to "uint8"), name)
        assert.is_true(data.read_image(path, { convert = "unchanged" }):equal(own))
      end
    end
    fails('convert: expected one of "unchanged", "rgb", "gray"; got "RGB"', data.read_image, golden "rgb.png", { convert = "RGB" })
  end)

  it("refuses files that are cut anywhere", function()
    for name in pairs(pngs) do
      local whole = files.read(golden(name .. ".png"))
      for length = 4, #whole - 1 do fails("^tests/image_spec.lua:%d+: [^:]*: PNG: ", read, whole:sub(1, length)) end
    end
    for name in pairs(jpegs) do
      local whole = files.read(golden(name .. ".jpg"))
      for length = 3, #whole - 3 do fails("^tests/image_spec.lua:%d+: [^:]*: JPEG: ", read, whole:sub(1, length)) end
    end
    fails("it is neither PNG nor JPEG", read, "")
    fails("it is neither PNG nor JPEG", read, "GIF89a")
    fails("^tests/image_spec.lua:%d+: no/such.png: cannot be opened", function() local x = data.read_image "no/such.png" return x end)
    fails("path: expected a string", data.read_image)
  end)

  it("refuses bytes that are changed in what is checked", function()
    local whole = files.read(golden "rgb16.png")
    fails("PNG: IHDR: CRC error", read, whole:sub(1, 29) .. string.char(whole:byte(30) ~ 1) .. whole:sub(31))
    fails("PNG: ", read, "\x89PNG\r\n\x1a\n" .. ("\0"):rep(100))
  end)

  it("takes no memory for sizes that are only claimed", function()
    local whole = files.read(golden "grey.png")
    local header = "IHDR" .. (">I4I4"):pack(100000, 100000) .. whole:sub(25, 29)
    local crc = -- of CRC-32, a bit at a time
      (function()
        local sum = 0xffffffff
        for k = 1, #header do
          sum = sum ~ header:byte(k)
          for _ = 1, 8 do sum = (sum >> 1) ~ (sum & 1 == 1 and 0xedb88320 or 0) end
        end
        return ~sum & 0xffffffff
      end)()
    local bomb = whole:sub(1, 12) .. header .. (">I4"):pack(crc) .. whole:sub(34)
    fails("100000 x 100000 pixels are more than max_pixels = 100000000", read, bomb)
    fails("13 x 9 pixels are more than max_pixels = 116", data.read_image, golden "grey.png", { max_pixels = 116 })
    fails("13 x 9 pixels are more than max_pixels = 116", data.read_image, golden "jpeg.jpg", { max_pixels = 116 })
    assert.same({ 1, 9, 13 }, data.read_image(golden "grey.png", { max_pixels = 117 }).shape)
  end)

  it("survives thousands of spoilt files", function()
    for name in pairs(pngs) do
      files.fuzz(files.read(golden(name .. ".png")), 400, function(path) data.read_image(path, { max_pixels = 100000 }) end)
    end
    for name in pairs(jpegs) do
      files.fuzz(files.read(golden(name .. ".jpg")), 800, function(path) data.read_image(path, { max_pixels = 100000 }) end)
    end
  end)

  it("survives allocations that fail", function()
    for _, name in ipairs { "interlaced.png", "palette_alpha.png", "jpeg_progressive.jpg" } do
      assert.is_true(files.fail_allocations(function() data.read_image(golden(name)) end) >= 2)
    end
  end)
end)

describe("data.write_png", function()
  it("writes what read_image reads", function()
    files.with_folder(function(folder)
      local path = folder .. "/x.png"
      for channels = 1, 4 do
        local image = optlua.randint(0, 256, { channels, 5, 7 }):to "uint8"
        data.write_png(path, image)
        assert.is_true(data.read_image(path):equal(image))
      end
      local flat = optlua.randint(0, 256, { 7, 5 }):to "uint8"
      data.write_png(path, flat:t())
      assert.is_true(data.read_image(path)[1]:equal(flat:t():contiguous()))
    end)
  end)

  it("refuses what is no image, and leaves the old file", function()
    files.with_folder(function(folder)
      local path = folder .. "/x.png"
      local image = optlua.zeros(1, 2, 2, { dtype = "uint8" })
      data.write_png(path, image)
      local old = files.read(path)
      fails("/x.png: an image of uint8 expected, got float32", data.write_png, path, optlua.zeros(3, 2, 2))
      for _, shape in ipairs { { 5, 2, 2 }, { 0, 2, 2 }, { 2 }, { 1, 0, 2 }, { 1, 1, 2, 2 } } do
        fails("an image %(H, W%) or %(C, H, W%) of 1 to 4 channels expected, got shape", data.write_png, path,
          optlua.zeros(shape, { dtype = "uint8" }))
      end
      fails("tensor expected", data.write_png, path, 7)
      fails("cannot be written", data.write_png, folder .. "/no/x.png", image)
      files.fail_allocations(function() data.write_png(path, optlua.zeros(3, 20, 20, { dtype = "uint8" })) end, true)
      data.write_png(path, image)
      assert.equal(old, files.read(path))
      local list = io.popen("ls -A " .. folder)
      assert.equal("x.png\n", list:read "a")
      list:close()
    end)
  end)
end)

describe("data.image_folder", function()
  local function copy(name, to) files.write(to, files.read(golden(name))) end

  --- A tree of two classes.
  local function with_tree(fn)
    files.with_folder(function(root)
      assert(os.execute(("mkdir -p '%s/cat/more' %s/ant %s/.hidden"):format(root, root, root)))
      copy("rgb.png", root .. "/cat/b.png")
      copy("grey.png", root .. "/cat/more/a.PNG")
      copy("jpeg.jpg", root .. "/ant/x.jpeg")
      copy("jpeg.jpg", root .. "/ant/.hidden.jpg")
      copy("rgba.png", root .. "/ant/y.png")
      files.write(root .. "/ant/notes.txt", "no image")
      files.write(root .. "/LIST", "no class")
      fn(root)
    end)
  end

  it("reads images by class, in the order of their names", function()
    with_tree(function(root)
      local set = data.image_folder(root)
      assert.same({ 4, { "ant", "cat" } }, { #set, set.classes })
      local paths = {}
      for i, sample in ipairs(set.samples) do paths[i] = sample.path:sub(#root + 2) .. " " .. sample.class end
      assert.same({ "ant/x.jpeg 0", "ant/y.png 0", "cat/b.png 1", "cat/more/a.PNG 1" }, paths)
      local image, class = set.get(3)
      assert.same({ { 3, 9, 13 }, 1 }, { image.shape, class })
      for images, classes in data.loader(set, { batch_size = 4 }):batches() do
        assert.same({ { 4, 3, 9, 13 }, { 0, 0, 1, 1 } }, { images.shape, classes:totable() })
      end
      local gray = data.image_folder(root, { convert = "gray", extensions = { ".png" }, transform = transforms.ToFloat() })
      assert.same({ 3, { 1, 9, 13 }, "float32" }, { #gray, gray.get(1).shape, gray.get(1).dtype })
      assert.same({ "ant", "cat" }, gray.classes)
    end)
  end)

  it("says what does not fit", function()
    with_tree(function(root)
      assert(os.execute("mkdir " .. root .. "/dog"))
      fails("/dog: there is no image in it", data.image_folder, root)
      os.execute(("rmdir %s/dog && ln -s .. %s/cat/up"):format(root, root))
      fails("folders are nested too deeply", data.image_folder, root)
      os.remove(root .. "/cat/up")
      files.write(root .. "/cat/b.png", "no PNG")
      local set = data.image_folder(root)
      fails("cat/b.png: it is neither PNG nor JPEG", set.get, 3)
      fails("there are no folders in it", data.image_folder, root .. "/cat/more")
      fails("cannot be listed: No such file", data.image_folder, root .. "/nothing")
      fails("cannot be listed: Not a directory", data.image_folder, root .. "/LIST")
      fails('unknown option "transforms"', data.image_folder, root, { transforms = 1 })
      fails("extensions%[1%]: a text expected", data.image_folder, root, { extensions = { 1 } })
    end)
  end)
end)

describe("transforms:", function()
  local image = optlua.arange(0, 24):reshape(1, 4, 6):to "uint8"
  local function number(value) return function(low, high) return low and math.min(high or low, low + value) or value end end

  it("ToFloat and Normalize", function()
    local float = transforms.ToFloat()(image)
    assert.same({ "float32", 23 }, { float.dtype, (float:max() * 255):round():item() })
    local double = optlua.ones(1, 1, 1, { dtype = "float64" })
    assert.equal("float32", transforms.ToFloat()(double).dtype)
    local normal = transforms.Normalize({ 0.5, 1 }, { 2, 4 })(optlua.ones(2, 1, 1))
    assert.same({ { { 0.25 } }, { { 0 } } }, normal:totable())
    assert.same({ 2, 3, 1, 1 }, transforms.Normalize({ 1 }, { 1 })(optlua.ones(2, 3, 1, 1)).shape)
    fails("an image of floats expected, got uint8; transforms.ToFloat", transforms.Normalize({ 0 }, { 1 }), image)
    fails("2 values for 3 channels", transforms.Normalize({ 0, 0 }, { 1 }), optlua.ones(3, 1, 1))
    fails("std%[2%]: expected a number above 0, got 0", transforms.Normalize, { 0 }, { 1, 0 })
    assert.equal(1, transforms.Normalize(0.5, 0.5)(optlua.ones(1, 1, 1)):item())
    fails("mean: expected a list", transforms.Normalize, "0.5", 0.5)
  end)

  it("CenterCrop and RandomCrop", function()
    assert.same({ { { 8, 9 }, { 14, 15 } } }, transforms.CenterCrop(2)(image):totable())
    assert.same({ { { 7, 8, 9 } } }, transforms.CenterCrop { 1, 3 }(image):totable())
    assert.same({ { { 0, 1 } } }, transforms.RandomCrop { 1, 2 }(image, number(0)):totable())
    assert.same({ { { 22, 23 } } }, transforms.RandomCrop { 1, 2 }(image, number(99)):totable())
    local padded = transforms.RandomCrop({ 4, 6 }, { padding = 1 })
    assert.same({ { 0, 0, 0, 0, 0, 0 }, { 0, 0, 1, 2, 3, 4 } }, padded(image, number(0))[{ 1, { 1, 2 } }]:totable())
    assert.same({ 19, 20, 21, 22, 23, 0 }, padded(image, number(99))[{ 1, 3 }]:totable())
    fails("RandomCrop: an image of 4 x 6 is smaller than 5 x 2", transforms.RandomCrop { 5, 2 }, image)
    fails("CenterCrop: an image of 4 x 6 is smaller than 7 x 7", transforms.CenterCrop(7), image)
    fails("size: height and width expected, got 3 numbers", transforms.CenterCrop, { 1, 2, 3 })
    fails("size: expected an integer.*got 0", transforms.RandomCrop, 0)
    fails("padding: expected", transforms.RandomCrop, 1, { padding = -1 })
    fails("CenterCrop: an image expected", transforms.CenterCrop(1), 7)
  end)

  it("RandomHorizontalFlip", function()
    assert.is_true(transforms.RandomHorizontalFlip()(image, number(0.5)):equal(image))
    assert.same({ 5, 4, 3, 2, 1, 0 }, transforms.RandomHorizontalFlip()(image, number(0.49))[{ 1, 1 }]:totable())
    assert.is_true(transforms.RandomHorizontalFlip(0)(image):equal(image))
    assert.is_true(transforms.RandomHorizontalFlip(1)(image):equal(image:flip(-1)))
    fails("p: expected a number at least 0 and at most 1", transforms.RandomHorizontalFlip, 2)
  end)

  it("Resize interpolates as PyTorch does", function()
    -- torch.nn.functional.interpolate(x, size, mode="bilinear"), PyTorch 2.13
    local x = optlua.tensor { { { 1, 2, 4 }, { 0, 3, -2 } } }
    local function near(wanted, got)
      assert.is_true(got:allclose(optlua.tensor(wanted), { atol = 1e-5 }))
    end
    near({ { { 1, 1.25, 1.75, 2.5, 3.5, 4 }, { 0.5, 1, 2, 2.125, 1.375, 1 }, { 0, 0.75, 2.25, 1.75, -0.75, -2 } } },
      transforms.Resize { 3, 6 }(x))
    near({ { { 1, 1.375 } } }, transforms.Resize { 1, 2 }(x))
    assert.same({ 1, 2, 3 }, transforms.Resize(2)(image).shape)
    assert.same({ 1, 3, 2 }, transforms.Resize(2)(image:transpose(2, 3)).shape)
    local bytes = transforms.Resize { 4, 3 }(image)
    assert.same({ "uint8", { 0, 2, 4 } }, { bytes.dtype, bytes[{ 1, 1 }]:totable() })
    assert.is_true(transforms.Resize { 4, 6 }(image):equal(image))
    fails("at least one pixel", transforms.Resize(2), optlua.zeros(1, 0, 2))
  end)

  it("Compose runs them in order, with the numbers of the item", function()
    local both = transforms.Compose {
      transforms.RandomCrop(4, { padding = 2 }), transforms.RandomHorizontalFlip(), transforms.ToFloat(), function(x) return x * 255 end,
    }
    assert.matches("^Compose%(RandomCrop%({4, 4}, padding=2%), RandomHorizontalFlip%(p=0.5%), ToFloat%(%), function", tostring(both))
    local images = optlua.arange(0, 60 * 24):reshape(60, 1, 4, 6):remainder(251):to "uint8"
    local set = data.transformed(data.tensors(images), both, { seed = 5 })
    local function pass(order, seed)
      local seen = {}
      local loader = data.loader(data.subset(set, order), { batch_size = 7, seed = seed })
      for _ = 1, 2 do
        local at = 0
        for x in loader:batches() do
          for k = 1, #x do
            at = at + 1
            seen[loader.epoch .. ":" .. order[at]] = x[k]:totable()
          end
        end
      end
      return seen
    end
    local up, down = {}, {}
    for i = 1, 60 do up[i], down[61 - i] = i, i end
    local one, two = pass(up, 1), pass(down, 2)
    assert.same(one, two)
    assert.not_same(one["1:3"], one["2:3"])
    optlua.manual_seed(1)
    local direct = both(images[1])
    optlua.manual_seed(1)
    assert.is_true(direct:equal(both(images[1])))
    fails("transform 1: expected a callable", transforms.Compose, { 7 })
    fails("transforms.CentreCrop does not exist %(did you mean", function() return transforms.CentreCrop end)
  end)
end)
