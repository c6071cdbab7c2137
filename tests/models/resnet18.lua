-- ResNet-18 (He et al., 2015) with torchvision's names.
local optlua = require "optlua"
local nn = optlua.nn

local function conv3x3(inputs, outputs, stride)
  return nn.Conv2d(inputs, outputs, 3, { stride = stride, padding = 1, bias = false })
end

local BasicBlock = nn.class "BasicBlock"

function BasicBlock:init(inputs, outputs, stride)
  self.conv1 = conv3x3(inputs, outputs, stride)
  self.bn1 = nn.BatchNorm2d(outputs)
  self.relu = nn.ReLU()
  self.conv2 = conv3x3(outputs, outputs)
  self.bn2 = nn.BatchNorm2d(outputs)
  if stride ~= 1 or inputs ~= outputs then
    self.downsample = nn.Sequential {
      nn.Conv2d(inputs, outputs, 1, { stride = stride, bias = false }), nn.BatchNorm2d(outputs),
    }
  end
end

function BasicBlock:forward(x) -- (B,C,H,W)
  local out = self.relu(self.bn1(self.conv1(x)))
  out = self.bn2(self.conv2(out))
  return self.relu(out + (self.downsample and self.downsample(x) or x))
end

local function layer(inputs, outputs, stride)
  return nn.Sequential { BasicBlock(inputs, outputs, stride), BasicBlock(outputs, outputs, 1) }
end

local ResNet18 = nn.class "ResNet18"

function ResNet18:init(width, classes)
  self.conv1 = nn.Conv2d(3, width, 7, { stride = 2, padding = 3, bias = false })
  self.bn1 = nn.BatchNorm2d(width)
  self.relu = nn.ReLU()
  self.maxpool = nn.MaxPool2d(3, { stride = 2, padding = 1 })
  self.layer1 = layer(width, width, 1)
  self.layer2 = layer(width, 2 * width, 2)
  self.layer3 = layer(2 * width, 4 * width, 2)
  self.layer4 = layer(4 * width, 8 * width, 2)
  self.avgpool = nn.AdaptiveAvgPool2d({ 1, 1 })
  self.fc = nn.Linear(8 * width, classes)
end

function ResNet18:forward(x) -- (B,3,H,W) -> (B,classes)
  x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
  x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
  return self.fc(self.avgpool(x):flatten(2))
end

return ResNet18
