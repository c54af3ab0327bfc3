console.error('src/app.css:12: the colour "reed" does not exist');
process.exitCode = 1;
