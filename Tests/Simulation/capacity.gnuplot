# Draws docs/capacity/*.csv: what the provider and the database get in each minute. Run by `make capacity`.
set terminal svg size 900,640 dynamic font "sans-serif,13" background "#ffffff"
set datafile separator ","
set grid
set key outside bottom center horizontal
set xlabel "minute"
set yrange [0:*]
do for [event in "restart provider database"] {
    set output sprintf("docs/capacity/%s.svg", event)
    set multiplot layout 2,1
    file = sprintf("docs/capacity/%s.csv", event)
    set ylabel "per second"
    plot file using 1:4 every ::1 with lines lw 2 title "requests at the provider", \
         file using 1:5 every ::1 with lines lw 2 title "of them answered with tokens", \
         file using 1:3 every ::1 with lines lw 2 title "failed user requests"
    plot file using 1:6 every ::1 with lines lw 2 title "calls of the database"
    unset multiplot
}
