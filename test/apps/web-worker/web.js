// It knows nothing of SIGTERM: what it was asked before it is told to end, the platform lets it answer.
const http = require('node:http');

/** Held until somebody says so. */
let held = [];
const server = http.createServer((request, response) => {
  response.setHeader('content-type', 'text/plain');
  if (request.url === '/held') return response.end(String(held.length));
  if (request.url === '/hold') return held.push(response);
  if (request.url !== '/let-go') return response.end(`web ${process.env.FLYNN_JOB_ID || ''}\n`);
  for (const one of held) one.end(`slowly ${process.env.FLYNN_RELEASE_ID || ''}\n`);
  held = [];
  response.end();
});
server.listen(Number(process.env.PORT) || 8080, () => console.log('web is listening'));
