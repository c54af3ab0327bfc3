require('node:http').createServer((_, response) => response.end('never')).listen(process.env.PORT);
