const http = require('node:http');

const server = http.createServer((request, response) => {
  response.setHeader('content-type', 'text/plain');
  response.end(`web ${process.env.FLYNN_JOB_ID || ''}\n`);
});
server.listen(Number(process.env.PORT) || 8080, () => console.log('web is listening'));
process.on('SIGTERM', () => server.close(() => process.exit(0)));
