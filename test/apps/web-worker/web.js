// It knows nothing of SIGTERM: what it was asked before it is told to end, the platform lets it answer.
const http = require('node:http');

let busy = 0;
const server = http.createServer((request, response) => {
  response.setHeader('content-type', 'text/plain');
  if (request.url === '/busy') return response.end(String(busy));
  if (request.url !== '/slow') return response.end(`web ${process.env.FLYNN_JOB_ID || ''}\n`);
  busy += 1;
  setTimeout(() => {
    busy -= 1;
    response.end(`slowly ${process.env.FLYNN_RELEASE_ID || ''}\n`);
  }, 20_000);
});
server.listen(Number(process.env.PORT) || 8080, () => console.log('web is listening'));
