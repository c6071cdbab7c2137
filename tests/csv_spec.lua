-- CSV files as datasets.
local optlua = require "optlua"
local files = require "files"
local data, nn = optlua.data, optlua.nn

local fails = require("fails").matching

--- data.csv of a file with this text.
local function read(text, opts)
  local set
  files.with_bytes(text, function(path) set = data.csv(path, opts) end)
  return set
end

local function fails_with(text, opts, message) return fails(message, read, text, opts) end

local plants = "length,width,kind\n1.5,2,oak\n3,4,elm\n5,-6e1,oak\n"

describe("data.csv", function()
  it("gives features and targets", function()
    local set = read(plants, { target = "kind", types = { kind = "category" } })
    local x, y = set.get(3)
    assert.same({ { 5, -60 }, "float32", 1, "int64" }, { x:totable(), x.dtype, y:item(), y.dtype })
    local xs, ys = set.batch(optlua.tensor({ 1, 0 }, "int64"))
    assert.same({ { { 3, 4 }, { 1.5, 2 } }, { 0, 1 } }, { xs:totable(), ys:totable() })
    assert.same({ "length", "width", "kind" }, set.names)
    assert.same({ "length", "width" }, set.features)
    assert.same({ kind = { "elm", "oak" } }, set.categories)
    assert.same({ length = "float", width = "float", kind = "category" }, set.types)
    assert.same({ 3, { 1, 0, 1 } }, { #set, set.columns.kind:totable() })
  end)

  it("finds out what numbers are, and wants texts declared", function()
    local set = read("a,b,c\n1,1,-3\n+2,2.5,4\n")
    assert.same({ a = "integer", b = "float", c = "integer" }, set.types)
    assert.same({ "int64", { 1, 2 } }, { set.columns.a.dtype, set.columns.a:totable() })
    assert.same({ "float32", { 1, 2.5 } }, { set.columns.b.dtype, set.columns.b:totable() })
    assert.same({ 1, 1, -3 }, (set.get(1)):totable())
    fails_with("a,b\n1,2\n3,4x\n", nil, 'data.csv: column "b": .*:3:3: "4x" is no number; say what it is')
    local declared = read("a,b\n1,2\n3,4x\n", { types = { b = "string" } })
    assert.same({ { "2", "4x" }, { "a" } }, { declared.columns.b, declared.features })
    assert.same({ 1, 3 }, read("a\n1\n3\n", { types = "float", dtype = "float64" }).columns.a:totable())
  end)

  it("reads without a header, or with names that are given", function()
    local set = read("1,2\n3,4\n", { header = false, target = 2 })
    assert.same({ { "1", "2" }, 4 }, { set.names, (select(2, set.get(2))):item() })
    local named = read("1,2\n3,4\n", { header = { "x", "y" }, features = { "y" } })
    assert.same({ 2, { 2 } }, { #named, (named.get(1)):totable() })
    assert.same({ 0, { "a" } }, { #read "a\n", read("a\n").names })
    assert.equal(0, #read("", { header = { "a" } }))
  end)

  it("reads quotes, other delimiters, ends of lines, blanks and marks", function()
    local set = read('\xef\xbb\xbf"a ""b"""; c \r\n"1" ;"x;\ny"\r\n\r\n 2;  z z \r\n', { delimiter = ";", types = { c = "string" } })
    assert.same({ 'a "b"', "c" }, set.names)
    assert.same({ { 1, 2 }, { "x;\ny", "z z" } }, { set.columns['a "b"']:totable(), set.columns.c })
    assert.same({ 1, 2 }, read("a\tb\n1\t2", { delimiter = "\t" }).get(1):totable())
    assert.same({ "it's" }, read("a,b\n1,'it''s'\n", { quote = "'", types = { b = "string" } }).columns.b)
    assert.same({ 1, 2, 3 }, read("a\r1\r2\r3\r").columns.a:totable())
    local packed = files.gzip(plants)
    assert.equal(3, #read(packed, { target = 3, types = { [3] = "category" } }))
  end)

  it("lays a list of targets side by side, also of one, as a layer of one output has them", function()
    local text = "age,price\n1,2\n3,4\n"
    assert.same({ 2 }, (select(2, read(text, { target = "price" }).batch(optlua.arange(2)))).shape)
    local set = read(text, { target = { "price" } })
    local x, y = set.batch(optlua.arange(2))
    assert.same({ { 2, 1 }, "float32" }, { y.shape, y.dtype })
    assert.same({}, nn.functional.mse_loss(nn.Linear(1, 1)(x), y).shape)
  end)

  it("says all that is to be declared at once, and first what no column is called", function()
    local text = "age,colour,label\n1,red,a\n2,blue,b\n"
    local message = fails('column "colour": .*column "label": ', read, text, {})
    assert.is_nil(message:find "csv_spec.lua:%d+: .*csv_spec.lua:%d+")
    fails('target: unknown column "labl"', read, text, { target = "labl" })
    fails('features: unknown column "ag"', read, text, { features = { "ag" } })
    fails("sep: this option is called delimiter", read, text, { sep = ";" })
    fails('missing: of columns such as "a", of type integer: .*got mean', read, "a\n1\n", { missing = "mean" })
  end)

  it("takes several targets, and lists of categories", function()
    local set = read(plants, { target = { "width", "length" }, types = { kind = { "fir", "oak", "elm" } } })
    local x, y = set.get(1)
    assert.same({ { 1 }, { 2, 1.5 } }, { x:totable(), y:totable() })
    assert.same({ 1, 2, 1 }, set.columns.kind:totable())
    fails_with(plants, { types = { kind = { "fir", "oak" } } }, ':3:5: column "kind": "elm" is none of its categories: fir, oak')
  end)

  describe("and missing values:", function()
    local text = "a,b,c\n1,0.5,x\n,NA,\n3,1.5,y\n"
    local types = { c = "category" }

    it("refuses them, with their place", function()
      fails_with(text, { types = types }, ':3:1: column "a": a value is missing; missing = "drop"')
      fails_with("a,b\n1,2\n3,\n", nil, ':3:3: column "b": a value is missing')
      fails_with('a,b\n1,""\n', nil, ':2:3: column "b": a value is missing')
      fails_with("a\n1\n", { missing = "what" }, '"a", of type integer: "error", "drop", "nan" or a number expected, got what')
    end)

    it("drops their rows", function()
      local set = read(text, { types = types, missing = "drop", target = "c" })
      assert.same({ 2, { 1, 3 }, { 0, 1 }, { "x", "y" } }, { #set, set.columns.a:totable(), set.columns.c:totable(), set.categories.c })
      assert.same({ "x" }, read("a,c\n1,x\n,y\n", { types = { c = "category" }, missing = "drop" }).categories.c)
      assert.same({ "x", "y" }, read(text, { types = { c = "string" }, missing = "drop" }).columns.c)
    end)

    it("fills them in", function()
      local set = read(text, { types = types, missing = { a = "nan", b = -1, c = "?" } })
      local a = set.columns.a:totable()
      assert.same({ "float32", 1, true }, { set.columns.a.dtype, a[1], a[2] ~= a[2] })
      assert.same({ { 0.5, -1, 1.5 }, { 1, 0, 2 }, { "?", "x", "y" } }, { set.columns.b:totable(), set.columns.c:totable(), set.categories.c })
      assert.same({ 1, 7, 3 }, read("a\n1\nNA\n3\n", { missing = 7 }).columns.a:totable())
      fails_with("a\n1\nNA\n", { missing = 0.5 }, "of type integer: an integer expected, got 0.5")
      fails_with(text, { types = types, missing = { b = "nan", a = 0 } }, 'column "c": a value is missing')
      fails_with(text, { types = types, missing = "nan" }, 'column "c": a value is missing')
      fails_with(text, { types = types, missing = { a = "x" } }, '"nan" or a number expected, got x')
      fails_with(text, { types = types, missing = { d = 0 } }, 'missing: unknown column "d"')
    end)

    it("knows them by marks of its own choice", function()
      assert.same({ 1, 0 }, read("a\n1\n?\n", { missing = 0, na_values = { "?" } }).columns.a:totable())
      fails_with("a,b\n1,2\n,3\n", { missing = 0, na_values = { "?" } }, '"" is no number')
      local texts = read('a,b\n1,NA\n2,""\n3,none\n', { types = { b = "string" }, na_values = { "none", "" }, missing = { b = "-" } })
      assert.same({ "NA", "", "-" }, texts.columns.b)
    end)
  end)

  it("refuses numbers that are none", function()
    for _, bad in ipairs { "0x10", "1e", "1e+", ".", "-", "+-1", "1 2", "inf", "1_000", "1,5", "--1", "1.2.3", "e5", "１" } do
      fails_with('a\n"' .. bad .. '"\n', { types = "float" }, ":2:1: .* is no number")
    end
    for _, good in ipairs { ".5", "5.", "-1E-3", "+0.25e2", "007" } do
      assert.equal(tonumber((good:gsub("^%+", ""))), read("a\n" .. good .. "\n", { types = "float", dtype = "float64" }).columns.a:item())
    end
    fails_with("a\n1.0\n", { types = "integer" }, ':2:1: "1.0" is no integer')
    fails_with("a\n9223372036854775808\n", { types = "integer" }, '"9223372036854775808" is too large')
    assert.equal(math.mininteger, read("a\n-9223372036854775808\n").columns.a:item())
    fails_with("a\n1e999\n", { types = "float" }, '"1e999" is too large')
    fails_with('a\n"1\0"\n', { types = "float" }, "is no number")
  end)

  it("wants columns declared whose digits numbers do not keep", function()
    fails_with("a\n12345678901234567890\n1\n", nil, 'column "a": a whole number has more digits than numbers keep')
    fails_with("a\n9007199254740993\n0.5\n", nil, 'column "a": a whole number has more digits')
    fails_with("a\n0.5\n9007199254740993\n", nil, "more digits")
    assert.equal(9007199254740993, read("a\n9007199254740993\n").columns.a:item())
    assert.same({ 2 ^ 53, 0.5 }, read("a\n9007199254740992\n0.5\n", { dtype = "float64" }).columns.a:totable())
    assert.equal(12345678901234567890.0, read("a\n12345678901234567890\n", { types = "float", dtype = "float64" }).columns.a:item())
    assert.equal("12345678901234567890", read("a,b\n12345678901234567890,1\n", { types = { a = "string" } }).columns.a[1])
  end)

  it("refuses a file that expands without measure", function()
    local path = os.tmpname()
    assert(os.execute("head -c 90000000 /dev/zero | gzip -1 >" .. path))
    fails("cannot be read: it expands to more than 200 times its size", data.csv, path)
    os.remove(path)
  end)

  it("refuses malformed files, with file, line and column", function()
    fails_with("a,b\n1,2\n3\n", nil, "^tests/csv_spec.lua:%d+: [^:]*:3:1: the line has 1 cells, the first one has 2")
    fails_with("a,b\n1,2,3\n", nil, ":2:1: the line has 3 cells")
    fails_with('a,b\n1,x"y\n', nil, ":2:4: a quote or something behind one where it must not be")
    fails_with('a,b\n1,"x"y\n', nil, ":2:6: a quote or something behind one")
    fails_with('a,b\n"1\n2\n', nil, ":2:1: a cell in quotes does not end")
    fails_with('a,b\r\n1,"\r\n\r\nx"y\r\n', nil, ":4:3: a quote")
    fails_with("", nil, "there is no line with a header")
    fails_with("a,a\n1,2\n", nil, 'header: column 2: a name of its own expected, got "a"')
    fails_with("1,2\n", { header = { "x" } }, "header has 1 names, the file has 2 columns")
    fails("no/such.csv: cannot be opened: No such file", data.csv, "no/such.csv")
    local packed = files.gzip(plants)
    fails_with(packed:sub(1, -9), nil, "cannot be read: unexpected end of file")
  end)

  it("refuses options that make no sense", function()
    fails_with(plants, { targt = "kind" }, 'unknown option "targt" %(did you mean "target"')
    fails_with(plants, { target = "knd", types = { kind = "category" } }, 'target: unknown column "knd" %(did you mean "kind"%?%)')
    fails_with(plants, { target = 4, types = { kind = "category" } }, "target: unknown column 4")
    fails_with(plants, { types = { kind = "categry" } }, 'types.kind: unknown type "categry" %(did you mean "category"')
    fails_with(plants, { types = { kin = "category" } }, 'types: unknown column "kin"')
    fails_with(plants, { types = { kind = "string" }, target = "kind" }, 'target: column "kind" is text')
    fails_with(plants, { types = { kind = "string" }, features = { "kind" } }, 'features: column "kind" is text')
    fails_with("a\nx\n", { types = "string" }, "no column is left for the features")
    fails_with(plants, { delimiter = ",," }, "delimiter: one byte expected")
    fails_with(plants, { delimiter = '"' }, "delimiter and quote are the same")
    fails_with(plants, { na_values = { 1 } }, "na_values: a list of texts expected")
    fails_with(plants, { dtype = "int64" }, "dtype: expected one of")
    fails("path: expected a string", data.csv)
  end)

  it("survives thousands of spoilt files, and allocations that fail", function()
    local text = '"a","b",c\n1,2.5,x\n3,-4e2,"y ""z"""\n5,,\n6,7,y\n'
    local opts = { types = { c = "category" }, missing = "drop", target = "c" }
    local good = files.fuzz(text, 4000, function(path) data.csv(path, opts) end)
    assert.is_true(good > 100 and good < 3900)
    files.fuzz(files.gzip(text), 1000, function(path) data.csv(path, opts) end)
    files.with_bytes(text, function(path) -- persistent, since libcsv asks for less when it does not get its wish
      assert.is_true(files.fail_allocations(function() data.csv(path, opts) end, true) > 10)
    end)
    files.with_bytes(("123456789012,"):rep(30) .. "1\n", function(path) -- outgrows every buffer
      assert.is_true(files.fail_allocations(function() data.csv(path, { header = false, types = "integer" }) end, true) > 10)
    end)
  end)
end)
