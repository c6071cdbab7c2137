-- Made by make_ops.py with PyTorch 2.13.0+cpu: places (from 0) and shapes of doubles in the .bin.
return {
  ["norm/1"] = { outputs = {{0,{}}}, grads = {{1,{3,4}}} },
  ["norm/2"] = { outputs = {{13,{4}}}, grads = {{17,{3,4}}} },
  ["norm/3"] = { outputs = {{29,{3,1}}}, grads = {{32,{3,4}}} },
  ["norm/4"] = { outputs = {{44,{3}}}, grads = {{47,{3,4}}} },
  ["norm/5"] = { outputs = {{59,{4}}}, grads = {{63,{3,4}}} },
  ["norm/6"] = { outputs = {{75,{3}}}, grads = {{78,{3,4}}} },
  ["norm/7"] = { outputs = {{90,{}}}, grads = {{91,{3,4}}} },
  ["norm/8"] = { outputs = {{103,{4}}}, grads = {{107,{3,4}}} },
  ["norm/9"] = { outputs = {{119,{3}}}, grads = {{122,{2,3,4}}} },
  ["norm/10"] = { outputs = {{146,{2,1,1}}}, grads = {{148,{2,3,4}}} },
  ["norm/11"] = { outputs = {{172,{}}}, grads = {{173,{}}} },
  ["norm/12"] = { outputs = {{174,{4}}}, grads = {{178,{3,4}}} },
  ["norm/13"] = { outputs = {{190,{}}}, grads = {{191,{3,3}}} },
  ["norm/14"] = { outputs = {{200,{0}}}, grads = {{200,{0,3}}} },
}
