let count = 0;
const timer = setInterval(() => console.log(`worker tick ${(count += 1)}`), Number(process.env.INTERVAL_MS) || 1000);
console.log('worker started');
process.on('SIGTERM', () => {
  clearInterval(timer);
  console.log('worker stopped');
});
