<?php

require __DIR__ . "/../vendor/autoload.php";

header("Content-Type: text/plain");
echo Greeting\Hello::say(), " from PHP ", PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION, ", ", $_SERVER["REQUEST_URI"], "\n";
