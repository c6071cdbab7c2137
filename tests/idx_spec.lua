-- IDX files and the datasets in them.
local optlua = require "optlua"
local files = require "files"
local data = optlua.data

local fails = require("fails").matching

--- The bytes of an IDX file.
local function made(code, sizes, elements)
  return string.char(0, 0, code, #sizes) .. (">I4"):rep(#sizes):pack(table.unpack(sizes)) .. elements
end

local function read(bytes)
  local result
  files.with_bytes(bytes, function(path) result = data.idx(path) end)
  return result
end

local bytes6 = made(0x08, { 2, 3 }, "\0\1\2\253\254\255")

describe("data.idx", function()
  it("reads each type of element, high byte first", function()
    for code, case in pairs {
      [0x08] = { "uint8", "B", { 0, 255, 7 } },
      [0x09] = { "int64", "b", { -128, 127, 0 } },
      [0x0b] = { "int64", ">i2", { -32768, 32767, 258 } },
      [0x0c] = { "int64", ">i4", { -(1 << 31), (1 << 31) - 1, 66051 } },
      [0x0d] = { "float32", ">f", { 0.25, -3, 1 / 0 } },
      [0x0e] = { "float64", ">d", { 1 / 3, -1e300, 0 } },
    } do
      local elements = {}
      for i, value in ipairs(case[3]) do elements[i] = case[2]:pack(value) end
      local t = read(made(code, { 3 }, table.concat(elements)))
      assert.same({ case[1], case[3] }, { t.dtype, t:totable() })
    end
  end)

  it("reads shapes, empty ones too, and gzipped files", function()
    assert.same({ { 0, 1, 2 }, { 253, 254, 255 } }, read(bytes6):totable())
    assert.same({ 0, 3 }, read(made(0x08, { 0, 3 }, "")).shape)
    assert.same({ 1, 1, 1, 1, 1, 1, 1, 2 }, read(made(0x0b, { 1, 1, 1, 1, 1, 1, 1, 2 }, "\0\1\0\2")).shape)
    assert.is_true(read(files.gzip(bytes6)):equal(read(bytes6)))
  end)

  it("refuses files that are cut anywhere, and what is too long", function()
    for _, whole in ipairs { bytes6, made(0x0e, { 2 }, (">dd"):pack(1, 2)) } do
      for length = 0, #whole - 1 do fails("too short", read, whole:sub(1, length)) end
      fails("something follows the elements", read, whole .. "\0")
    end
    local packed = files.gzip(bytes6)
    for length = 3, #packed - 1 do fails("file", read, packed:sub(1, length)) end
    fails("cannot be read: .*data", read, packed:sub(1, -6) .. "xxxxx")
  end)

  it("refuses bad headers before it takes memory", function()
    fails("does not begin with two bytes of 0", read, "\0\1" .. bytes6:sub(3))
    fails("no element type 0x0a", read, made(0x0a, { 1 }, "\0\0"))
    fails("1 to 8 dimensions expected, got 9", read, made(0x08, { 1, 1, 1, 1, 1, 1, 1, 1, 1 }, "\0"))
    fails("1 to 8 dimensions expected, got 0", read, made(0x08, {}, "\0"))
    local huge = (1 << 32) - 1
    fails("too short for elements of shape %(4294967295%)", read, made(0x08, { huge }, "\0"))
    fails("too short for elements of shape", read, files.gzip(made(0x08, { huge }, "\0")))
    fails("too large", read, made(0x0e, { huge, huge, huge }, "\0"))
    fails("^tests/idx_spec.lua:%d+: no/such: cannot be opened: No such file", function() local t = data.idx "no/such" return t end)
    fails("cannot be read: Is a directory", data.idx, "tests")
    fails("string expected", data.idx)
  end)

  it("survives thousands of spoilt files", function()
    files.fuzz(made(0x0c, { 3, 2, 2 }, ("\1\2\3\4"):rep(12)), 2000, data.idx)
    files.fuzz(files.gzip(made(0x08, { 40, 5 }, ("abcde"):rep(40))), 2000, data.idx)
  end)

  it("survives allocations that fail", function()
    files.with_bytes(bytes6, function(path)
      assert.is_true(files.fail_allocations(function() data.idx(path) end) >= 1)
    end)
  end)
end)

--- Writes the four files of a tiny MNIST of 2x2 pixels: 3 for training, 2 for testing.
local function write_tiny(folder, ending, change)
  for part, n in pairs { train = 3, t10k = 2 } do
    local pixels, labels = {}, {}
    for i = 1, n do
      pixels[i] = string.char(i, 51, 102, 255)
      labels[i] = string.char(i - 1)
    end
    local pack = ending == ".gz" and files.gzip or function(bytes) return bytes end
    files.write(("%s/%s-images-idx3-ubyte%s"):format(folder, part, ending), pack(made(0x08, { n, 2, 2 }, table.concat(pixels))))
    files.write(("%s/%s-labels-idx1-ubyte%s"):format(folder, part, ending),
      pack(made(0x08, { n }, change or table.concat(labels))))
  end
end

describe("data.mnist", function()
  it("reads four files, gzipped or not, as torchvision or the sources lay them out", function()
    files.with_folder(function(folder)
      assert(os.execute("mkdir -p " .. folder .. "/MNIST/raw"))
      for _, place in ipairs { { "", ".gz" }, { "/MNIST/raw", "" } } do
        write_tiny(folder .. place[1], place[2])
        local train, test = data.mnist { root = folder }
        assert.same({ 3, 2 }, { #train, #test })
        local x, y = train.get(3)
        assert.same({ { 1, 2, 2 }, "float32", 2, "int64" }, { x.shape, x.dtype, y:item(), y.dtype })
        assert.is_true(x:allclose(optlua.tensor { { { 3 / 255, 0.2 }, { 0.4, 1 } } }))
        local xs, ys = train.batch(optlua.tensor({ 2, 0 }, "int64"))
        assert.same({ { 2, 1, 2, 2 }, { 2, 0 } }, { xs.shape, ys:totable() })
        assert.same({ "uint8", { 0, 1, 2 }, 10 }, { train.data.dtype, train.targets:totable(), #train.classes })
        assert(os.execute("rm -f " .. folder .. "/*.gz"))
      end
      assert.equal(2, #data.fashion_mnist { root = folder .. "/MNIST/raw", train = false })
      local seen = data.mnist { root = folder, train = true, transform = function(image) return image * 255 end }
      assert.same({ { { 1, 51 }, { 102, 255 } } }, (seen.get(1)):totable())
      assert.equal("0", seen.classes[1])
    end)
  end)

  it("says what is missing, and refuses files that do not fit", function()
    fails("data.mnist: root: is required: give the folder of train%-images", data.mnist)
    fails("apt%-get install dataset%-fashion%-mnist", data.fashion_mnist, { root = "/no/such/folder" })
    fails('unknown option "folder"', data.mnist, { folder = "x" })
    files.with_folder(function(folder)
      write_tiny(folder, "", "\0\1\2\3")
      fails("something follows the elements", data.mnist, { root = folder })
      files.write(folder .. "/train-labels-idx1-ubyte", made(0x08, { 4 }, "\0\1\2\3"))
      fails("labels: uint8 %(3%) expected, got uint8 of shape %(4%)", data.mnist, { root = folder })
      write_tiny(folder, "", "\0\1\10")
      fails("^tests/idx_spec.lua:%d+: data.mnist: labels: 0 to 9 expected, got 10", function()
        local set = data.mnist { root = folder, train = true }
        return set
      end)
      files.write(folder .. "/train-images-idx3-ubyte", made(0x08, { 3, 4 }, ("x"):rep(12)))
      fails("images: uint8 %(N, height, width%) expected, got uint8 of shape %(3, 4%)", data.mnist, { root = folder })
      os.remove(folder .. "/t10k-labels-idx1-ubyte")
      fails("no file .*t10k%-labels%-idx1%-ubyte, ", data.mnist, { root = folder, train = false })
    end)
  end)

  local real = io.open "/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"
  if real then
    real:close()
    it("reads Debian's Fashion-MNIST", function()
      local train, test = data.fashion_mnist()
      assert.same({ 60000, 10000 }, { #train, #test })
      assert.equal("Ankle boot", train.classes[(select(2, train.get(1))):item() + 1])
      assert.equal(6000, train.targets:eq(3):sum():item())
    end)
  end
end)
